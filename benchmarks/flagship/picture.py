"""Draw what each recovery left of each method's accuracy, corruption by corruption, from the committed rows of the test.

python -m benchmarks.flagship.picture [--rows benchmarks/results/flagship-test.tar.xz] [--to docs/images/recovery.png]
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aetta.bench.figures import ESTIMATED, OTHER, RESET, STYLE
from aetta.bench.recipes.paper import METHODS
from benchmarks.flagship.tables import RULES, Record, read

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "benchmarks" / "results" / "flagship-test.tar.xz"
PICTURE = ROOT / "docs" / "images" / "recovery.png"
LINES = {  # colour, dashes, width
    "none": ("#9a9a9a", "-", 1.6),
    "estimate_drop": (ESTIMATED, "-", 1.2),
    "dist_shift": (RESET, (0, (3, 1.5)), 1.2),
    "flagship": (OTHER, "-", 1.8),
}


def by_corruption(records: Sequence[Record]) -> dict[tuple[str, str], np.ndarray]:
    """Accuracy in % on each corruption, the mean over seeds, by method and rule: Tiny-ImageNet-100, continual."""
    found: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for record in records:
        head = record.head
        if (head["data"], head["order"], head["fully"]) == ("tiny100", "shuffled", False):
            domains = np.array([row["domain"] for row in record.rows])
            values = 100 * record.values("accuracy")
            found[head["method"], head["rule"]].append(
                np.array([values[domains == d].mean() for d in dict.fromkeys(domains)])
            )
    return {key: np.mean(runs, 0) for key, runs in found.items()}


def draw(records: Sequence[Record], path: Path) -> None:
    """One panel a method."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    shown = by_corruption(records)
    titles = {name: title for title, name in METHODS.items() if (name, "none") in shown}
    with rc_context(dict(STYLE)):
        drawing = Figure(figsize=(7.0, 3.9), layout="constrained")
        axes = drawing.subplots(2, 3, sharex=True, sharey=True).flat
        for (method, title), panel in zip(titles.items(), axes, strict=True):
            for rule, (colour, dashes, width) in LINES.items():
                panel.plot(range(1, 16), shown[method, rule], color=colour, ls=dashes, lw=width, label=RULES[rule])
            panel.set_title(title, loc="left")
            panel.set_xticks([1, 5, 10, 15])
            panel.set_ylim(0, 62)
            panel.grid(axis="y", color="#e4e4e4", lw=0.5)
        drawing.supxlabel("corruption, in the order of the stream", fontsize=8)
        drawing.supylabel("accuracy, %", fontsize=8)
        handles, labels = panel.get_legend_handles_labels()
        names = {"none": "no recovery"}
        drawing.legend(
            handles, [names.get(label, label) for label in labels], loc="outside upper center", ncols=4, fontsize=8
        )
        drawing.savefig(path, dpi=200, metadata={"Software": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--to", type=Path, default=PICTURE)
    given = parser.parse_args()
    draw(read(given.rows), given.to)
    print(given.to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
