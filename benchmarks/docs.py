"""Fill docs/benchmarks.md from the committed rows: its tables between their marks, and its figures.

python -m benchmarks.docs           writes the page and the figures
python -m benchmarks.docs --check   says whether the tables are those of the rows; exit code 1 if not
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from aetta.bench.figures import as_file, draw
from aetta.bench.recipes import parts
from aetta.bench.render import render
from aetta.bench.store import Store
from aetta.bench.table import fill

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
FIGURES = ROOT / "docs" / "images" / "benchmarks"
RESULTS = ROOT / "benchmarks" / "results"
MARKED = re.compile(r"(<!-- (table|figure) ([\w.]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, store: Store) -> str:
    """The page with what is between its marks made anew."""

    def made(mark: re.Match[str]) -> str:
        begin, kind, name, end = mark.groups()
        return f"{begin}\n{table(name, store) if kind == 'table' else figure(name, store)}\n{end}"

    return MARKED.sub(made, text)


def table(name: str, store: Store) -> str:
    """A table of a recipe, beside the paper's numbers where there are some."""
    (found,) = parts(name)[0]
    numbers = fill(found, store)
    if all(score is None for block in numbers.blocks for score in block.scores.values()):
        return f"*Not measured yet: `aetta run {name}`.*\n"
    return render(numbers, "md", compare=True)


def figure(name: str, store: Store) -> str:
    """A picture of a figure, if its cells are there."""
    (found,) = parts(name)[1]
    if any(store.load(cell) is None for _, cell in found.cells):
        return f"*Not measured yet: `aetta run {name}`.*\n"
    return f"![{found.title}](images/benchmarks/{found.name}.png)\n"


def draw_figures(text: str, store: Store) -> None:
    """Draw the figures the page shows."""
    for _, kind, name, _ in MARKED.findall(text):
        if kind == "figure":
            (found,) = parts(name)[1]
            results = [store.load(cell) for _, cell in found.cells]
            if None not in results:
                FIGURES.mkdir(parents=True, exist_ok=True)
                drawing = draw(found, [result for result in results if result is not None])
                (FIGURES / f"{found.name}.png").write_bytes(as_file(drawing, "png"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    store, before = Store(RESULTS), PAGE.read_text(encoding="utf-8")
    after = filled(before, store)
    if given.check:
        print("docs/benchmarks.md is current" if after == before else "docs/benchmarks.md is not what the rows say")
        return int(after != before)
    PAGE.write_text(after, encoding="utf-8")
    draw_figures(after, store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
