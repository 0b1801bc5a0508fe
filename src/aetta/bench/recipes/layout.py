"""How the tables of the paper are laid out, whatever the data set: which cells stand where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aetta.bench.cell import Cell, part
from aetta.bench.recipe import Block, Entry, Figure, Table
from aetta.bench.recipes import options
from aetta.bench.recipes.options import AETTA_ALONE, WATCHING, Labelled
from aetta.bench.recipes.paper import ESTIMATORS, METHODS, RULES
from aetta.data.published import CORRUPTIONS

__all__ = ["Setting", "details", "errors", "figures", "recovery", "variants"]

Number = Callable[["Setting", str, str], float | None]
Averages = Callable[["Setting"], Mapping[str, float]]
SAMPLES, ALPHAS = (5, 10, 15), (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)


@dataclass(frozen=True, slots=True)
class Setting:
    """A data set with its source model.

    title: As it is called in tables.
    data, model: Of the cells; `{seed}` in the model is the stream's seed.
    options: The data set whose published options its adapters take, or `options.DEFAULTS`.
    paper: The paper's data set whose numbers stand beside it.
    domains: In their order.
    """

    title: str
    data: str
    model: str
    options: str
    paper: str = ""
    domains: tuple[str, ...] = CORRUPTIONS

    def cell(self, method: str, seed: int, rule: str = "none", **changes: Any) -> Cell:
        """A cell of a method as published; continual, unless `domains` says otherwise."""
        given = {
            "data": self.data,
            "model": self.model.format(seed=seed),
            "adapter": options.adapter(method, self.options, rule),
            "recovery": options.recovery(rule),
            "domains": self.domains,
            "seed": seed,
            "forgetful": False,
        }
        return Cell(**{**given, **changes})

    def cells(
        self, method: str, seeds: Sequence[int], rule: str = "none", *, fully: bool = False, **changes: Any
    ) -> tuple[Cell, ...]:
        """The cells of a method: one for each seed, or in the fully setting one for each seed and corruption."""
        streams = [(domain,) for domain in self.domains] if fully else [self.domains]
        return tuple(self.cell(method, seed, rule, **{"domains": s, **changes}) for seed in seeds for s in streams)

    def repaired(self, method: str, seeds: Sequence[int], rule: str) -> tuple[Cell, ...]:
        """The cells of a method with a recovery rule; the only estimate in them is the one it follows."""
        return self.cells(method, seeds, rule, estimators=AETTA_ALONE if rule == "estimate_drop" else ())


def errors(
    name: str,
    title: str,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    *,
    fully: bool = False,
    rows: Mapping[str, str] = ESTIMATORS,
    estimators: Labelled = WATCHING,
    paper: Number = lambda setting, row, column: None,
    averages: Averages = lambda setting: {},
) -> Table:
    """A block for each setting, a row for each estimator, a column for each method.

    rows: The estimators' names in the table, and the labels of their estimates.
    estimators: Which watch.
    paper, averages: The paper's numbers.
    """
    blocks = []
    for setting in settings:
        entries = [
            Entry(
                row,
                column,
                setting.cells(method, seeds, fully=fully, estimators=estimators),
                estimate=label,
                paper=paper(setting, row, column),
            )
            for row, label in rows.items()
            for column, method in METHODS.items()
        ]
        blocks.append(Block(setting.title, tuple(entries), tuple(averages(setting).items())))
    return Table(name, title, tuple(blocks))


def recovery(
    name: str,
    title: str,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    *,
    paper: Number = lambda setting, rule, column: None,
    averages: Averages = lambda setting: {},
    methods: Mapping[str, str] = METHODS,
) -> Table:
    """A block for each setting, a row for each recovery rule, a column for each method: what accuracy it adds."""
    blocks = []
    for setting in settings:
        entries = [
            Entry(
                row,
                column,
                setting.repaired(method, seeds, rule),
                without=setting.cells(method, seeds, estimators=WATCHING),
                paper=paper(setting, row, column),
            )
            for row, rule in RULES.items()
            for column, method in methods.items()
        ]
        without = [
            Entry("no recovery: accuracy", column, setting.cells(method, seeds, estimators=WATCHING))
            for column, method in methods.items()
        ]
        blocks.append(Block(setting.title, tuple(entries), tuple(averages(setting).items())))
        blocks.append(Block(f"{setting.title}, without recovery", tuple(without)))
    return Table(name, title, tuple(blocks))


def details(name: str, title: str, settings: Sequence[Setting], seeds: Sequence[int], *, fully: bool = False) -> Table:
    """A block for each setting and method, a row for each estimator, a column for each corruption."""
    blocks = []
    for setting in settings:
        for column, method in METHODS.items():
            entries = []
            for row, label in ESTIMATORS.items():
                for corruption in setting.domains:
                    domains = (corruption,) if fully else setting.domains
                    cells = setting.cells(method, seeds, estimators=WATCHING, domains=domains)
                    entries.append(Entry(row, corruption, cells, estimate=label, domain=corruption))
            blocks.append(Block(f"{setting.title}, {column}", tuple(entries)))
    return Table(name, title, tuple(blocks))


def variants(name: str, title: str, settings: Sequence[Setting], seeds: Sequence[int]) -> Table:
    """As `errors`, with variants of AETTA for rows; all of them, and those of the other table, watch the same run.

    name: "samples" or "alpha".
    """
    labelled = {f"{option} {value:g}": part("aetta", **{option: value}) for option, value in VARIED}
    rows = {f"AETTA, {label}": label for label in labelled if label.startswith(name)}
    return errors(name, title, settings, seeds, rows=rows, estimators=tuple(labelled.items()))


VARIED = (*(("samples", samples) for samples in SAMPLES), *(("alpha", alpha) for alpha in ALPHAS))


def figures(settings: Sequence[Setting], seeds: Sequence[int]) -> tuple[Figure, ...]:
    """The paper's figures, for the first seed."""
    seed = seeds[0]
    found = []
    for setting in settings:
        short = setting.data.split("-")[0]
        traced = tuple(
            (column, setting.cell(method, seed, estimators=WATCHING, trace=True))
            for column, method in METHODS.items()
            if method in ("tent", "eata")
        )
        every = tuple((column, setting.cell(method, seed, estimators=WATCHING)) for column, method in METHODS.items())
        repaired = tuple(
            (column, setting.repaired(method, [seed], "estimate_drop")[0]) for column, method in METHODS.items()
        )
        found += [
            Figure(f"collapse_{short}", f"Collapse: {setting.title}, continual", "collapse", traced),
            Figure(f"calibration_{short}", f"Calibration: {setting.title}, continual", "calibration", every),
            Figure(f"curves_{short}", f"True and estimated accuracy: {setting.title}, continual", "curves", every),
            Figure(f"recovery_{short}", f"AETTA's recovery: {setting.title}, continual", "recovery", repaired),
        ]
    return tuple(found)
