"""Which runs there are, in the order in which their numbers are wanted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from aetta.data.published import CORRUPTIONS
from benchmarks.flagship.data import GEOMETRIC, Domain

EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
METHODS = ("tent", "eata", "sar", "cotta", "rotta", "sotta")
LONGEST_FIRST = ("cotta", "rotta", "sotta", "sar", "eata", "tent")
MODEL = {"cifar10": "cifar10-resnet18", "tiny100": "tiny100-resnet18"}
PACE = {  # seconds a batch, measured with twelve processes on one H200
    "cifar10": {"tent": 0.2, "eata": 0.3, "sar": 0.3, "sotta": 0.25, "rotta": 0.65, "cotta": 0.95},
    "tiny100": {"tent": 0.2, "eata": 0.3, "sar": 0.3, "sotta": 0.25, "rotta": 0.65, "cotta": 1.9},
}
RATES = {"cifar10": (0.4, 0.2, 0.3, 0.5), "tiny100": (0.3, 0.2, 0.4, 0.5)}  # the published one first


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of one method over one stream.

    kind: "views" records what anchors say of the stream; "raw" what a method says, and its dropout passes; "watch"
        has all estimators watch; "repair" has one recovery repair.
    domains: In their order.
    batches: Of each domain.
    rates: Dropout rates to record; ten passes at the first, five at the others.
    rule: The recovery.
    fully: Each domain is met by a new copy of the source.
    keep: Of a "repair", also record what was said.
    """

    kind: str
    data: str
    method: str = "none"
    model: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    domains: tuple[Domain, ...] = field(repr=False)
    batches: int
    batch_size: int = 64
    order: str = "shuffled"
    seed: int = 0
    rates: tuple[float, ...] = ()
    rule: str = "none"
    fully: bool = False
    keep: bool = False

    @property
    def source(self) -> str:
        """The name of the source model."""
        return self.model or MODEL[self.data]

    @property
    def seconds(self) -> float:
        """About how long it takes beside eleven others."""
        return len(self.domains) * self.batches * PACE[self.data].get(self.method, 0.2)

    @property
    def stream(self) -> str:
        """The name of the stream, whatever runs over it."""
        short = self.source.rsplit("-", 1)[1] if self.data == "cifar10" else "resnet18"
        return f"{self.data}-{short}-{self.order}-{self.batch_size}-{len(self.domains)}x{self.batches}-s{self.seed}"

    @property
    def name(self) -> str:
        """The name of its file."""
        method = self.method + "".join(f"_{value:g}" for _, value in self.options)
        setting = "-fully" if self.fully else ""
        rule = f"-{self.rule}" if self.kind == "repair" else ""
        return f"{self.kind}-{self.stream}{setting}-{method}{rule}"

    def __str__(self) -> str:
        return self.name


def shifts(cells: list[Cell]) -> list[tuple[str, Domain]]:
    """The domains the cells need, by data set, each once."""
    needed = [(cell.data, domain) for cell in cells for domain in cell.domains if domain[0] != "clean"]
    return list(dict.fromkeys(needed))


def development(scale: int = 1) -> list[Cell]:
    """Development on CIFAR-10, acceptance and recovery on Tiny-ImageNet-100: the four extra corruptions alone.

    scale: Divides the batches of each domain, to try it out.
    """
    tents = [(("learning_rate", rate),) for rate in (1e-2, 1e-3, 1e-4)]
    severities = (5, 3, 1)
    extra = tuple((kind, severity) for severity in severities for kind in EXTRA)
    moved = tuple((kind, 4) for kind in GEOMETRIC)
    hard = tuple((kind, severity) for severity in (5, 3) for kind in EXTRA)
    cifar = Cell(kind="raw", data="cifar10", domains=extra + moved, batches=max(1, 8 // scale))
    tiny = Cell(kind="raw", data="tiny100", domains=hard, batches=max(1, 16 // scale))
    clumped = [replace(cell, order="dirichlet") for cell in (cifar, tiny)]
    other = [replace(cell, batch_size=16) for cell in (cifar, tiny)]
    other += [replace(cell, batch_size=256, batches=max(1, cell.batches // 4)) for cell in (cifar, tiny)]
    found = [replace(cell, kind="views") for cell in (tiny, cifar, *clumped)]
    for cell in (tiny, cifar):
        found += [replace(cell, method=method, rates=RATES[cell.data]) for method in LONGEST_FIRST]
    found += [replace(cifar, method="tent", options=rate, rates=RATES["cifar10"]) for rate in tents if rate != tents[1]]
    found += [replace(cifar, method="batch_norm", rates=RATES["cifar10"])]
    for cell in clumped:
        rates = RATES[cell.data][:1]
        found += [replace(cell, method=method, rates=rates) for method in LONGEST_FIRST[1:]]
    found += [replace(clumped[0], method="tent", options=tents[0], rates=RATES["cifar10"][:1])]
    repaired = replace(tiny, kind="repair")
    for rule in ("anchor", "estimate_drop", "dist_shift"):
        found += [replace(repaired, method=method, rule=rule, keep=rule == "anchor") for method in LONGEST_FIRST]
    found += [replace(repaired, method=method, rule="anchor_free") for method in LONGEST_FIRST[1:]]
    for cell in other:
        found += [replace(cell, kind="views"), *(replace(cell, method=method) for method in ("sotta", "tent"))]
    for rule in ("anchor_quick", "anchor_reset"):
        found += [replace(repaired, method=method, rule=rule) for method in LONGEST_FIRST[1:]]
    guarded = replace(cifar, kind="repair", rule="anchor")
    found += [replace(guarded, method="tent", options=rate) for rate in tents[:2]]
    found += [replace(guarded, method=method) for method in ("rotta", "sotta", "eata", "sar")]
    older = replace(cifar, model="cifar10-resnet20")
    found += [replace(older, kind="views")]
    found += [replace(older, method=method) for method in ("sotta", "rotta", "tent", "eata")]
    found += [replace(older, method="tent", options=tents[0])]
    repaired = replace(older, kind="repair", rule="flagship")
    found += [replace(repaired, method=method) for method in ("sotta", "rotta", "tent", "eata")]
    found += [replace(repaired, method="tent", options=tents[0])]
    sized = Cell(kind="watch", data="cifar10", model="cifar10-resnet20", method="tent", domains=hard, batches=1)
    for order, sizes in (("shuffled", {256: 1, 16: 8, 4: 16, 1: 24}), ("dirichlet", {16: 8, 4: 16})):
        found += [replace(sized, order=order, batch_size=s, batches=b) for s, b in sizes.items()]
    return found


def final(images: int, *, seeds: tuple[int, ...] = (0, 1, 2), scale: int = 1) -> list[Cell]:
    """The fifteen corruptions at severity 5: continual, fully, clumped, repaired.

    One seed after the other; of each, what takes longest first, so that it ends with what takes little.

    images: Of each corruption; half as many for CoTTA, which takes four times as long as the others.
    """
    domains = tuple((kind, 5) for kind in CORRUPTIONS)
    found: list[Cell] = []
    for seed in seeds:
        cells: list[Cell] = []
        for method in METHODS:
            batches = max(1, images // (128 if method == "cotta" else 64) // scale)
            tiny, cifar = (
                Cell(kind="watch", data=data, method=method, domains=domains, batches=batches, seed=seed)
                for data in ("tiny100", "cifar10")
            )
            for cell in (tiny, cifar):
                cells += [cell, replace(cell, fully=True), replace(cell, order="dirichlet")]
            rules = ("flagship", "estimate_drop", "dist_shift")
            cells += [replace(tiny, kind="repair", rule=rule) for rule in rules]
        found += sorted(cells, key=lambda cell: -cell.seconds)
    return found
