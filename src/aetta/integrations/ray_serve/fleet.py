"""All replicas of an application, asked at once."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from aetta.serving.refusal import busy

__all__ = ["Fleet", "healthiest"]

log = logging.getLogger(__name__)
PATIENCE = 10.0  # seconds for every replica to answer


class Fleet:
    """Whom a replica can ask: its likes, itself among them.

    handle: Ray Serve's, of the deployment.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def ask(self, method: str, *arguments: Any) -> list[Any]:
        """What the replicas answer; those that die while they are asked, or have nothing to say, are left out."""
        answers = self._handle.broadcast(method, *arguments)
        try:
            said = await answers.results_async(timeout_s=PATIENCE, return_exceptions=True)
        except TimeoutError:
            raise busy(503, f"a replica did not answer within {PATIENCE:g} s", PATIENCE) from None
        for problem in (each for each in said if isinstance(each, BaseException)):
            log.warning("a replica did not answer %r: %s", method, type(problem).__name__)
        return [each for each in said if each is not None and not isinstance(each, BaseException)]

    async def ask_one(self, name: str, method: str, *arguments: Any) -> Any:
        """What the replica of that name answers, or None if there is none."""
        said = await self.ask("only", name, method, arguments)
        return said[0] if said else None


def healthiest(reports: Sequence[Mapping[str, Any]], *, but: str) -> str | None:
    """The replica whose accuracy is estimated highest, of those that have digested something.

    but: One that cannot be meant.

    >>> reports = [{"replica": name, "estimates": {"aetta": {"accuracy": a}}} for name, a in [("0", 0.4), ("1", 0.7)]]
    >>> healthiest(reports, but="0"), healthiest(reports, but="1"), healthiest([], but="0")
    ('1', '0', None)
    """
    known = {each["replica"]: _accuracy(each) for each in reports if each["replica"] != but}
    alive = {name: accuracy for name, accuracy in known.items() if not math.isnan(accuracy)}
    return max(alive, key=lambda name: alive[name]) if alive else None


def _accuracy(report: Mapping[str, Any]) -> float:
    """By its first estimator; not a number where there is no estimate."""
    first = next(iter(report["estimates"].values()), None)
    return math.nan if first is None or first["accuracy"] is None else float(first["accuracy"])
