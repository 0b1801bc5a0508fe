"""The page around the blocks: title, sections, style and script in one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template

__all__ = ["Section", "page"]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page.

    title: Its heading, as plain text.
    blocks: Pieces of HTML, from the functions of this package.
    lead: A sentence or two under the heading, as plain text.
    """

    title: str
    blocks: Sequence[str]
    lead: str = ""


def page(title: str, sections: Sequence[Section], *, lead: str = "", facts: str = "") -> str:
    """A whole HTML page that needs no network.

    lead: A sentence or two under the title, as plain text.
    facts: How the page came about, at its foot, as plain text.

    >>> page("Digits", [Section("Results", ["<p>fine</p>"])]).startswith("<!doctype html>")
    True
    """
    parts = files("aetta.recorders.report")
    return Template((parts / "page.html").read_text("utf-8")).substitute(
        title=escape(title),
        lead=_line("lead", lead),
        sections="\n".join(_section(section) for section in sections),
        facts=_line("facts", facts),
        style=(parts / "page.css").read_text("utf-8"),
        script=(parts / "page.js").read_text("utf-8"),
    )


def _section(section: Section) -> str:
    blocks = "\n".join(section.blocks)
    return f"<section>\n<h2>{escape(section.title)}</h2>\n{_line('lead', section.lead)}\n{blocks}\n</section>"


def _line(kind: str, text: str) -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if text else ""
