"""The tables and figures of a recipe as files: one for each figure, and one HTML page of all of it, without network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aetta.bench.cell import Cell
from aetta.bench.figures import COLOURS, as_file, draw
from aetta.bench.recipe import Figure, Table, cells_of
from aetta.bench.render import render
from aetta.bench.store import Store
from aetta.bench.table import fill
from aetta.errors import UnknownName
from aetta.files import see_writable
from aetta.recorders.report import Section, page, paragraphs

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

__all__ = ["draw_all"]

FORMATS = ("svg", "pdf", "png")


def draw_all(
    recipe: str,
    title: str,
    tables: Sequence[Table],
    figures: Sequence[Figure],
    store: Store,
    folder: Path,
    form: str = "svg",
) -> tuple[list[Path], list[Cell]]:
    """Write each figure whose cells are finished, and report.html with all tables and these figures.

    Returns the files, and the cells that are missing.
    """
    if form not in FORMATS:
        raise UnknownName.of("format of figures", form, FORMATS)
    see_writable(folder, "--to FOLDER")
    written = []
    sections = [Section(table.title, [render(fill(table, store), "html", compare=True)]) for table in tables]
    for figure in figures:
        found = [result for _, cell in figure.cells if (result := store.load(cell)) is not None]
        if len(found) < len(figure.cells):
            absent = len(figure.cells) - len(found)
            sections.append(Section(figure.title, [paragraphs(f"{absent} of {len(figure.cells)} cells are missing.")]))
            continue
        drawing = draw(figure, found)
        path = folder / f"{recipe.partition('.')[0]}-{figure.name}.{form}"
        path.write_bytes(as_file(drawing, form))
        written.append(path)
        drawing.suptitle("")  # the section says it
        sections.append(Section(figure.title, [f'<figure class="drawing">{_inline(drawing, figure.name)}</figure>']))
    report = folder / "report.html"
    report.write_text(page(title, sections), encoding="utf-8")
    return [*written, report], store.missing(cells_of(tables, figures))


def _inline(drawing: Drawing, name: str) -> str:
    """A figure as SVG for a page: ids get a prefix, as several stand on one page, and colours are the page's."""
    text = as_file(drawing, "svg", transparent=True).decode()
    text = text[text.index("<svg") :]
    for mark in ('id="', "url(#", 'href="#'):
        text = text.replace(mark, f"{mark}{name}-")
    for colour, variable in COLOURS.items():
        text = text.replace(colour, f"var({variable})")
    return text
