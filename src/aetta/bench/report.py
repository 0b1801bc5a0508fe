"""The tables and figures of a recipe as files: one for each figure, and one HTML page of all of it, without network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from aetta.bench.figures import as_file, draw
from aetta.bench.recipe import Figure, Table, cells_of
from aetta.bench.render import render
from aetta.bench.store import Store
from aetta.bench.table import fill
from aetta.errors import BadOption

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

__all__ = ["draw_all"]

FORMATS = ("svg", "pdf", "png")
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
:root {{ color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --faint: #777777; --line: #d8d8d8; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e8e8e8; --paper: #161616; --faint: #9a9a9a; --line: #3a3a3a; }}
}}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem;
  margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto;
  font-variant-numeric: tabular-nums; }}
caption {{ text-align: left; font-weight: 600; padding: .4rem 0; }}
th, td {{ padding: .15rem .7rem; text-align: right; white-space: nowrap; }}
th[scope=row] {{ text-align: left; font-weight: 500; }}
thead th {{ border-bottom: 1px solid var(--line); }}
tr.main th, tr.main td {{ border-top: 1px solid var(--line); }}
tr.more th, tr.more td {{ color: var(--faint); font-size: .85em; font-weight: 400; }}
tr.more th {{ padding-left: 1.6rem; }}
td.missing {{ color: #b3402a; font-style: italic; }}
ul.notes {{ color: var(--faint); font-size: .8em; }}
figure {{ margin: 2rem 0; background: #ffffff; padding: .5rem; border-radius: .3rem; }}
figure svg {{ width: 100%; height: auto; }}
</style></head><body><h1>{title}</h1>
{body}
</body></html>
"""


def draw_all(
    recipe: str, tables: Sequence[Table], figures: Sequence[Figure], store: Store, folder: Path, form: str = "svg"
) -> tuple[list[Path], int]:
    """Write each figure whose cells are finished, and report.html with all tables and these figures.

    Returns the files, and how many cells are missing.
    """
    if form not in FORMATS:
        raise BadOption(f"a figure cannot be written as {form!r}; choose one of {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    written, body = [], []
    for table in tables:
        body.append(render(fill(table, store), "html", compare=True))
    for figure in figures:
        results = [store.load(cell) for _, cell in figure.cells]
        found = [result for result in results if result is not None]
        if len(found) < len(results):
            body.append(
                f"<p>{escape(figure.title)}: {len(results) - len(found)} of {len(results)} cells are missing.</p>"
            )
            continue
        drawing = draw(figure, found)
        path = folder / f"{recipe.partition('.')[0]}-{figure.name}.{form}"
        path.write_bytes(as_file(drawing, form))
        written.append(path)
        body.append(f"<figure>{_inline(drawing, figure.name)}</figure>")
    page = folder / "report.html"
    page.write_text(PAGE.format(title=escape(f"aetta: {recipe}"), body="\n".join(body)), encoding="utf-8")
    missing = store.missing(cells_of(tables, figures))
    return [*written, page], len(missing)


def _inline(drawing: Drawing, name: str) -> str:
    """A figure as SVG for a page: its ids get a prefix, as several stand on one page."""
    text = as_file(drawing, "svg").decode()
    text = text[text.index("<svg") :]
    for mark in ('id="', "url(#", 'href="#'):
        text = text.replace(mark, f"{mark}{name}-")
    return text
