"""AnchorGuard: undo what was learned once the model is worse, on the same images, than if it had learned nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from aetta._types import Estimate, Repair, Step
from aetta.adapters.base import Adapter
from aetta.errors import BadOption
from aetta.estimators.anchor_score import AnchorScore
from aetta.estimators.base import Estimator
from aetta.nn.norm import uses_batch_statistics
from aetta.nn.recent import Recent
from aetta.recovery.base import Recovery
from aetta.recovery.learned import RESET, anchor_of, go_to, learned, says
from aetta.state import fingerprint

__all__ = ["AnchorGuard"]

ACTIONS = ("rollback", "reset", "freeze", "serve_anchor", "advise")


class AnchorGuard(Recovery):
    """Follow by how much the estimated accuracy is below that of the anchor, which `AnchorScore` tells for each batch.

    Both are of the same images, so a harder domain lowers both, and is no reason to act. The shortfall beyond `slack`
    adds up from batch to batch, and what is better than that takes off again (CUSUM, Page 1954): at `limit` something
    is done.

        doubt = max(0, doubt + anchor - accuracy - slack)

    Meanwhile both models answer together: from when the anchor's lead, as a mean over the last batches, is above
    `slack`, until it is below half of it, the answer is what is most likely by the anchor's probabilities plus the
    model's own, weighted by the `health` that `AnchorScore` tells. That also helps where no repair does, because
    whatever is adapted in this way is worse than the anchor.

    on: The name of the estimate to follow; the first one that tells of an anchor if not given.
    action: What is done. "rollback": the adapter goes to the best of these places, if one is better on this batch, by
        the anchor's judgement, than where it is: a snapshot of what was learned; nothing learned, but statistics and
        memories kept; the source. "reset": to the source. "freeze": the monitor adapts no more. "serve_anchor": the
        anchor answers while the doubt lasts. "advise": nothing but to say so.
    slack: The shortfall of a batch that is not counted, as a share.
    limit: The sum of shortfalls at which to act: 0.1 is one batch that is ten points worse, or five that are two.
    every: A snapshot is taken so many batches after the last one, when there is no doubt.
    keep: How many snapshots are kept.
    cooldown: For so many batches after an action, nothing is done; twice as many each time a rollback finds no better
        place.
    stand_in: Whether the anchor answers together with the model while it leads. The estimate remains that of the model
        alone. `AnchorScore` has asked the anchor anyway; beside another estimator it costs a forward pass.

    `audit` holds the last hundred decisions: what was seen, what was done, and the state's hash before and after.

    >>> import torch
    >>> from aetta import Source
    >>> guard, adapter = AnchorGuard(action="advise"), Source(torch.nn.Linear(2, 2))
    >>> def step(accuracy):
    ...     return Step(0, torch.empty(0), {"anchor_score": Estimate(accuracy, details={"anchor": 0.7})})
    >>> guard.recover(adapter, step(0.69)), guard.recover(adapter, step(0.55)).action
    (None, 'advise')
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "doubt", "waiting", "patience", "since", "snapshots", "audit", "lead", "together", "health", "temperature",
    )  # fmt: skip
    NEEDS: ClassVar[str] = "AnchorScore, or another estimator that tells of an anchor"

    def __init__(
        self,
        *,
        on: str | None = None,
        action: str = "rollback",
        slack: float = 0.02,
        limit: float = 0.1,
        every: int = 20,
        keep: int = 4,
        cooldown: int = 5,
        stand_in: bool = True,
    ) -> None:
        if action not in ACTIONS:
            raise BadOption(f"action is {action!r}; it must be one of {', '.join(ACTIONS)}")
        if limit <= 0 or every < 1 or keep < 0 or cooldown < 0:
            raise BadOption(f"limit {limit} must be above 0, every {every} at least 1, keep {keep} and cooldown 0")
        self.on, self.action, self.slack, self.limit = on, action, slack, limit
        self.every, self.cooldown = every, cooldown
        self.doubt = 0.0
        self.waiting, self.patience, self.since = 0, cooldown, 0
        self.snapshots: deque[Any] = deque(maxlen=keep)
        self.audit: deque[dict[str, Any]] = deque(maxlen=100)
        self.stand_in = stand_in and action not in ("serve_anchor", "advise")
        self.lead, self.together = Recent(256), False
        self.health, self.temperature = 1.0, 1.0
        self._estimators: Mapping[str, Estimator] = {}

    @property
    def stands_in(self) -> bool:
        return self.together or self._alone

    @property
    def _alone(self) -> bool:
        return self.action == "serve_anchor" and self.doubt >= self.limit

    def serve(self, adapter: Adapter, images: Tensor, logits: Tensor) -> Tensor:
        if not self.stands_in:
            return logits
        anchor = self._anchor(adapter, images)
        return anchor if self._alone else both(anchor, logits, self.health, self.temperature)

    def beside(self, estimators: Mapping[str, Estimator]) -> None:
        self._estimators = estimators

    def _anchor(self, adapter: Adapter, images: Tensor) -> Tensor:
        """What the anchor says of a batch; where `AnchorScore` is followed, by its own anchor, at no further cost."""
        followed = [e for name, e in self._estimators.items() if self.on in (None, name) and isinstance(e, AnchorScore)]
        if not followed:
            return anchor_of(adapter, images)
        with adapter.inference():
            by_batch = uses_batch_statistics(adapter.predictor)
        return followed[0].look(images, by_batch=by_batch).logits

    def recover(self, adapter: Adapter, step: Step) -> Repair | None:
        estimate = self._followed(step)
        stood_in, anchor = self._alone, estimate.details["anchor"]
        self._follow_lead(adapter, step, estimate)
        worse = anchor - estimate.accuracy - self.slack
        self.doubt = min(2 * self.limit, max(0.0, self.doubt + worse))  # with a ceiling, so that it can be overcome
        self.since += 1
        if self.waiting:
            self.waiting -= 1
            return None
        if self.doubt < self.limit:
            if self.doubt == 0 and self.since >= self.every and self.action == "rollback":
                self.snapshots.append(learned(adapter))
                self.since, self.patience = 0, self.cooldown
            return None
        reason = (
            f"the estimated accuracy is {estimate.accuracy:.3f} where the anchor's is {anchor:.3f}; "
            f"shortfalls beyond {self.slack:g} have added up to {self.doubt:.3f}, the limit is {self.limit:g}"
        )
        return None if stood_in else self._act(adapter, step, estimate, reason)

    def _follow_lead(self, adapter: Adapter, step: Step, estimate: Estimate) -> None:
        """Whether both models answer the next batch together, and with which weights."""
        shortfall = torch.tensor(estimate.details["anchor"] - estimate.accuracy, dtype=torch.float64)
        lead = float(self.lead.add(shortfall, max(1, len(step.logits))))
        self.health = estimate.details.get("health", 0.0)
        self.temperature = estimate.details.get("temperature", 1.0)
        together = self.stand_in and lead > (self.slack / 2 if self.together else self.slack)
        if together != self.together:
            now = fingerprint(adapter.state_dict())
            reason = f"the anchor's lead, as a mean over the last images, is {lead:.3f}"
            self._note(step, "stand_in" if together else "stand_down", reason, now, now)
        self.together = together

    def _act(self, adapter: Adapter, step: Step, estimate: Estimate, reason: str) -> Repair | None:
        was, action = fingerprint(adapter.state_dict()), self.action
        restored: tuple[str, ...] = ()
        if action == "rollback":
            better, place = self._best(adapter, step, estimate.details.get("temperature", 1.0))
            action = "none" if not better else RESET if place == RESET else action
            restored = go_to(adapter, place) if better else ()
        elif action == RESET:
            restored = go_to(adapter, RESET)
        self._note(step, action, reason, was, fingerprint(adapter.state_dict()))
        if action == "none":
            self.patience = 2 * max(1, self.patience)
        if self.action != "serve_anchor":
            self.doubt, self.waiting, self.since = 0.0, self.patience, 0
        return None if action == "none" else Repair(action, reason, restored)

    def _note(self, step: Step, action: str, reason: str, before: str, after: str) -> None:
        note = {"batch": step.index, "doubt": self.doubt, "action": action, "reason": reason}
        self.audit.append({**note, "before": before, "after": after})

    def _best(self, adapter: Adapter, step: Step, temperature: float) -> tuple[bool, Any]:
        """Whether there is a better place on this batch, and which: snapshots, the newest first, come before others."""
        places = [*reversed(self.snapshots), None, RESET]
        if step.images is None:
            return True, places[0]
        images = step.images
        judge = (anchor_of(adapter, images).double() / temperature).softmax(1)

        def score(logits: Tensor) -> float:
            return float(judge.gather(1, logits.argmax(1, keepdim=True)).mean())

        scores = [score(says(adapter, images, place)) for place in places]
        best = max(range(len(places)), key=scores.__getitem__)
        return scores[best] > score(adapter.predict(images)) + self.limit / 2, places[best]

    def _followed(self, step: Step) -> Estimate:
        telling = {name: e for name, e in step.estimates.items() if "anchor" in e.details}
        if not telling or (self.on is not None and self.on not in telling):
            raise BadOption(
                f"the recovery follows an estimate that tells of an anchor, but of this monitor's estimates "
                f"({', '.join(step.estimates) or 'none'}) {f'{self.on!r} does not' if self.on else 'none does'}; "
                "add the estimator 'anchor_score'"
            )
        return telling[self.on or next(iter(telling))]


def both(anchor: Tensor, adapted: Tensor, health: float, temperature: float) -> Tensor:
    """The logarithm of both models' probabilities together, the adapted one's weighted by its health: [batch, classes].

    >>> sure, unsure = torch.tensor([[0.0, 9.0]]), torch.tensor([[1.0, 0.0]])
    >>> both(unsure, sure, 0.0, 1.0).argmax(1), both(unsure, sure, 1.0, 1.0).argmax(1)
    (tensor([0]), tensor([1]))
    """
    told = (anchor / temperature).softmax(1) + health * (adapted / temperature).softmax(1)
    return (told / (1 + health)).clamp(min=torch.finfo(told.dtype).tiny).log()
