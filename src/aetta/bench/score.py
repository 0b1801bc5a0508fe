"""From rows to numbers: how far estimates are from the truth, as the AETTA paper measures it. All are fractions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from aetta.bench.result import Result, Row
from aetta.errors import BadOption

__all__ = ["Score", "accuracy", "by_domain", "error", "gain", "mean_error", "noise_floor"]


@dataclass(frozen=True, slots=True)
class Score:
    """A number of a table.

    value: The mean over seeds.
    deviation: The sample deviation over seeds; None for one seed.
    seeds: How many.
    bias: The mean of estimate - accuracy, where there is an estimate.
    floor: The error of an estimate that knows the accuracy of each domain but nothing of single images.
    accuracy: The mean accuracy.
    absent: How many batches had no finite estimate, and were left out.
    """

    value: float
    deviation: float | None
    seeds: int
    bias: float | None = None
    floor: float | None = None
    accuracy: float | None = None
    absent: int = 0


def noise_floor(accuracy: float, batch_size: int = 64) -> float:
    """The mean absolute error of who knows the accuracy a, but not what the batch holds: sqrt(2a (1 - a) / (pi B)).

    It is the mean distance of a normal variable with the variance a (1 - a) / B from its mean.

    >>> round(100 * noise_floor(0.8), 2)
    3.99
    """
    return math.sqrt(2 * accuracy * (1 - accuracy) / (math.pi * batch_size))


def error(results: Sequence[Result], estimate: str, domain: str | None = None) -> Score:
    """How far an estimate is from the accuracy: mean over batches, then over domains, then over seeds.

    results: All cells that make up the number: several seeds, and for the fully setting a cell for each domain.
    estimate: Its label.
    domain: Only this one.
    """
    domains = _domains(results, domain)
    rows = [row for _, found in domains for row in found]
    return _score(
        _by_seed(domains, lambda found: mean_error(found, estimate)),
        domains,
        results[0].cell.batch_size,
        bias=fmean(_mean(_errors(found, estimate)) for _, found in domains),
        absent=sum(row["estimates"].get(estimate) is None for row in rows),
    )


def accuracy(results: Sequence[Result], domain: str | None = None) -> Score:
    """The accuracy: mean over batches, then over domains, then over seeds."""
    domains = _domains(results, domain)
    return _score(_by_seed(domains, _accuracy), domains, results[0].cell.batch_size)


def gain(results: Sequence[Result], without: Sequence[Result], domain: str | None = None) -> Score:
    """What a recovery adds to the accuracy: the difference for each seed, then the mean over seeds."""
    domains, plain = _domains(results, domain), _domains(without, domain)
    after, before = _by_seed(domains, _accuracy), _by_seed(plain, _accuracy)
    if after.keys() != before.keys():
        raise BadOption(f"seeds {sorted(after)} with recovery cannot be compared with seeds {sorted(before)} without")
    return _score({seed: after[seed] - before[seed] for seed in after}, domains, results[0].cell.batch_size)


def by_domain(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    """The rows of each domain, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["domain"], []).append(row)
    return found


def mean_error(rows: Sequence[Row], estimate: str) -> float:
    """The mean of |accuracy - estimate| over the batches that have an estimate; NaN where none has.

    >>> rows = [{"accuracy": 0.5, "estimates": {"aetta": 0.75}}, {"accuracy": 0.5, "estimates": {"aetta": None}}]
    >>> mean_error(rows, "aetta")
    0.25
    """
    return _mean(abs(error) for error in _errors(rows, estimate))


def _domains(results: Sequence[Result], domain: str | None) -> list[tuple[int, list[Row]]]:
    """(seed, the rows of one domain), for each result and each of its domains that is asked for."""
    found = [
        (result.cell.seed, rows)
        for result in results
        for name, rows in by_domain(result.rows).items()
        if domain in (None, name)
    ]
    if not found:
        raise BadOption(f"no rows of the domain {domain!r} are among {len(results)} results")
    return found


def _by_seed(domains: Sequence[tuple[int, list[Row]]], measure: Callable[[list[Row]], float]) -> dict[int, float]:
    values: dict[int, list[float]] = {}
    for seed, rows in domains:
        values.setdefault(seed, []).append(measure(rows))
    return {seed: fmean(found) for seed, found in values.items()}


def _score(
    by_seed: Mapping[int, float],
    domains: Sequence[tuple[int, list[Row]]],
    batch_size: int,
    *,
    bias: float | None = None,
    absent: int = 0,
) -> Score:
    values, accuracies = list(by_seed.values()), [_accuracy(rows) for _, rows in domains]
    return Score(
        value=fmean(values),
        deviation=stdev(values) if len(values) > 1 else None,
        seeds=len(values),
        bias=bias,
        floor=fmean(noise_floor(value, batch_size) for value in accuracies),
        accuracy=fmean(accuracies),
        absent=absent,
    )


def _accuracy(rows: Sequence[Row]) -> float:
    return fmean(row["accuracy"] for row in rows)


def _errors(rows: Sequence[Row], estimate: str) -> list[float]:
    if estimate not in rows[0]["estimates"]:
        known = ", ".join(rows[0]["estimates"]) or "none"
        raise BadOption(f"the rows hold no estimate {estimate!r}; they hold {known}")
    return [row["estimates"][estimate] - row["accuracy"] for row in rows if row["estimates"].get(estimate) is not None]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else math.nan
