"""A filled table as text, Markdown, LaTeX or HTML. Here, and only here, fractions become points."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from aetta.bench.score import Score
from aetta.bench.table import Filled, FilledBlock
from aetta.errors import UnknownName
from aetta.recorders.report import Section, page

__all__ = ["FORMATS", "render", "render_all"]

MISSING, UNKNOWN = "missing", "-"
TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}
NOTHING = Score(float("nan"), None, 0)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a block: what it is, and a text for each column."""

    row: str
    what: str
    texts: tuple[str, ...]
    bold: tuple[bool, ...]

    @property
    def is_main(self) -> bool:
        """Whether it opens a row, or stands for the whole column."""
        return self.row != ""


def render(table: Filled, form: str = "text", *, compare: bool = False) -> str:
    """A table in one of `FORMATS`.

    compare: With the paper's numbers, and the difference to them.
    """
    if form not in FORMATS:
        raise UnknownName.of("format", form, FORMATS)
    return FORMATS[form](table, [(block, _lines(block, compare)) for block in table.blocks])


def render_all(tables: Sequence[Filled], form: str = "text", *, title: str = "", compare: bool = False) -> str:
    """Several tables one after the other; as HTML, a page that needs no network.

    title: Of the page.
    compare: With the paper's numbers, and the difference to them.
    """
    texts = [render(table, form, compare=compare) for table in tables]
    if form != "html":
        return "\n\n".join(texts)
    return page(title, [Section(table.title, [text]) for table, text in zip(tables, texts, strict=True)])


def _lines(block: FilledBlock, compare: bool) -> list[Line]:
    lines = []
    for row in block.rows:
        scores = [block.scores.get((row, column)) for column in block.columns]
        known = [(row, column) in block.scores for column in block.columns]
        bold = tuple(row in block.best(column) for column in block.columns)
        lines.append(Line(row, "", tuple(map(_value, scores, known)), bold))
        if any(score is not None and score.bias is not None for score in scores):
            lines.append(_plain("bias", [_signed(None if score is None else score.bias) for score in scores]))
        if compare and block.paper:
            paper = [block.paper.get((row, column)) for column in block.columns]
            lines.append(_plain("paper", [UNKNOWN if value is None else f"{value:.2f}" for value in paper]))
            lines.append(_plain("difference", [_difference(s, value) for s, value in zip(scores, paper, strict=True)]))
    return lines + _of_columns(block)


def _of_columns(block: FilledBlock) -> list[Line]:
    """The accuracy in each column, and the noise floor, where they are the same for all rows: those of an estimate."""
    if all(score is None or score.bias is None for score in block.scores.values()):
        return []
    first = [
        next((s for row in block.rows if (s := block.scores.get((row, column))) is not None), NOTHING)
        for column in block.columns
    ]
    return [
        Line("noise floor", "", tuple(_percent(score.floor) for score in first), (False,) * len(first)),
        Line("accuracy", "", tuple(_percent(score.accuracy) for score in first), (False,) * len(first)),
    ]


def _plain(what: str, texts: Sequence[str]) -> Line:
    return Line("", what, tuple(texts), (False,) * len(texts))


def _value(score: Score | None, known: bool) -> str:
    if not known:
        return ""
    if score is None:
        return MISSING
    return _percent(score.value) + ("" if score.deviation is None else f" ± {100 * score.deviation:.2f}")


def _percent(value: float | None) -> str:
    if value is None or value != value:
        return UNKNOWN
    return f"{100 * value:.2f}"


def _signed(value: float | None) -> str:
    return UNKNOWN if value is None or value != value else f"{100 * value:+.2f}"


def _difference(score: Score | None, paper: float | None) -> str:
    if score is None or paper is None or score.value != score.value:
        return UNKNOWN
    return f"{100 * score.value - paper:+.2f}"


Blocks = Sequence[tuple[FilledBlock, list[Line]]]


def _text(table: Filled, blocks: Blocks) -> str:
    parts = [table.title, "=" * len(table.title)]
    for block, lines in blocks:
        grid = [["", "", *block.columns]]
        for line in lines:
            texts = [f"*{text}*" if bold else text for text, bold in zip(line.texts, line.bold, strict=True)]
            grid.append([line.row, line.what, *texts])
        widths = [max(len(row[place]) for row in grid) for place in range(len(grid[0]))]
        parts += ["", block.title, "-" * len(block.title)]
        parts += [
            "  ".join(
                text.ljust(width) if place < 2 else text.rjust(width)
                for place, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in grid
        ]
    return "\n".join([*parts, "", *_foot(table)]) + "\n"


def _markdown(table: Filled, blocks: Blocks) -> str:
    parts = [f"### {table.title}"]
    for block, lines in blocks:
        parts += ["", f"**{block.title}**", "", f"| | {' | '.join(block.columns)} |"]
        parts.append("| --- |" + " ---: |" * len(block.columns))
        for line in lines:
            texts = [f"**{text}**" if bold else text for text, bold in zip(line.texts, line.bold, strict=True)]
            parts.append(f"| {line.row or '&nbsp;&nbsp;' + line.what} | {' | '.join(texts)} |")
    return "\n".join([*parts, "", *(f"- {note}" for note in _foot(table))]) + "\n"


def _latex(table: Filled, blocks: Blocks) -> str:
    parts = [f"% {table.title}", r"% needs \usepackage{booktabs}"]
    for block, lines in blocks:
        parts += [
            rf"\begin{{tabular}}{{l{'r' * len(block.columns)}}}",
            r"\toprule",
            rf"{_tex(block.title)} & {' & '.join(map(_tex, block.columns))} \\",
            r"\midrule",
        ]
        for line in lines:
            texts = [
                rf"\textbf{{{_tex(text)}}}" if bold else _tex(text)
                for text, bold in zip(line.texts, line.bold, strict=True)
            ]
            name = _tex(line.row) if line.is_main else rf"\quad {_tex(line.what)}"
            parts.append(rf"{name} & {' & '.join(texts)} \\")
        parts += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join([*parts, *(f"% {note}" for note in _foot(table))]) + "\n"


def _html(table: Filled, blocks: Blocks) -> str:
    parts = []
    for block, lines in blocks:
        heads = "".join(f'<th scope="col">{escape(column)}</th>' for column in block.columns)
        parts += [
            f'<div class="scroll"><table class="numbers"><caption>{escape(block.title)}</caption>',
            f"<thead><tr><td></td>{heads}</tr></thead><tbody>",
        ]
        for line in lines:
            name = escape(line.row if line.is_main else line.what)
            kind = "main" if line.is_main else "more"
            texts = "".join(map(_html_text, line.texts, line.bold))
            parts.append(f'<tr class="{kind}"><th scope="row">{name}</th>{texts}</tr>')
        parts.append("</tbody></table></div>")
    notes = "".join(f"<li>{escape(note)}</li>" for note in _foot(table))
    return "\n".join([*parts, f'<ul class="notes">{notes}</ul>']) + "\n"


def _html_text(text: str, bold: bool) -> str:
    if text == MISSING:
        return f'<td class="missing">{text}</td>'
    return f"<td><strong>{escape(text)}</strong></td>" if bold else f"<td>{escape(text)}</td>"


def _tex(text: str) -> str:
    """Text as LaTeX shows it; a hyphen before a digit is a minus."""
    return re.sub(r"^-(?=\d)", "$-$", "".join(TEX.get(sign, sign) for sign in text))


def _foot(table: Filled) -> Iterable[str]:
    """What holds for the whole table."""
    if any(score is not None for block in table.blocks for score in block.scores.values()):
        yield "in points; mean ± sample deviation over seeds; the best of a column is marked"
    if table.missing:
        yield f"cells that are missing: {len(table.missing)}"
    yield from table.notes


FORMATS: dict[str, Callable[[Filled, Blocks], str]] = {
    "text": _text,
    "md": _markdown,
    "latex": _latex,
    "html": _html,
}
