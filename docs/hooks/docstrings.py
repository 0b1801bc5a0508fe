"""The house style of docstrings, taken apart: a sentence, prose, options by name, examples that run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

__all__ = ["Docstring", "options_in", "parse", "sectioned"]

OPTION = re.compile(r"^(?P<names>[A-Za-z_]\w*(?:, [A-Za-z_]\w*)*): +(?P<text>.*)$")
ASSUMES = "What it assumes:"


@dataclass(frozen=True, slots=True)
class Docstring:
    """One docstring.

    summary: Its first paragraph, on one line.
    prose: Its other paragraphs, as Markdown.
    assumes: The paragraph that begins with "What it assumes:", without these words; empty if there is none.
    options: What each option means, by name.
    examples: Its doctests.
    """

    summary: str
    prose: tuple[str, ...]
    assumes: str
    options: dict[str, str]
    examples: tuple[str, ...]


def parse(text: str | None, names: Collection[str]) -> Docstring:
    """Take a docstring apart.

    names: The options there are; a paragraph that begins with other words and a colon is prose.

    >>> found = parse("Add.\\n\\nSlowly.\\n\\nleft, right: The\\n    numbers.\\n\\n>>> 1 + 1\\n2", ["left", "right"])
    >>> found.summary, found.prose, found.options["right"], found.examples
    ('Add.', ('Slowly.',), 'The numbers.', ('>>> 1 + 1\\n2',))
    """
    summary, *rest = _paragraphs(text)
    prose: list[str] = []
    examples: list[str] = []
    options: dict[str, str] = {}
    assumes = ""
    for paragraph in rest:
        if paragraph.startswith(">>>"):
            examples.append(paragraph)
        elif paragraph.startswith(ASSUMES):
            assumes = paragraph.removeprefix(ASSUMES).strip()
        elif found := options_in(paragraph, names):
            options |= found
        else:
            prose.append(paragraph)
    return Docstring(" ".join(summary.split()), tuple(prose), assumes, options, tuple(examples))


def options_in(paragraph: str, names: Collection[str]) -> dict[str, str]:
    """The options a paragraph tells of; none if it is prose."""
    options: dict[str, str] = {}
    current: list[str] = []
    for line in paragraph.splitlines():
        found = OPTION.match(line)
        if found and set(found["names"].split(", ")) <= set(names):
            current = found["names"].split(", ")
            options |= dict.fromkeys(current, found["text"])
        elif current and line.startswith(" "):
            options |= {name: f"{options[name]} {line.strip()}" for name in current}
        else:
            return {}
    return options


def sectioned(text: str | None, names: Collection[str], section: str = "Args") -> str:
    """The docstring as documentation generators know it: options in a section of their own, doctests in fences.

    >>> print(sectioned("Add.\\n\\nleft: One number.", ["left"]))
    Add.
    <BLANKLINE>
    Args:
        left: One number.
    """
    return "\n\n".join(_section(paragraph, names, section) for paragraph in _paragraphs(text))


def _section(paragraph: str, names: Collection[str], section: str) -> str:
    if paragraph.startswith(">>>"):
        return f"```pycon\n{paragraph}\n```"
    options = options_in(paragraph, names)
    if not options:
        return paragraph
    return "\n".join([f"{section}:", *(f"    {name}: {meaning}" for name, meaning in options.items())])


def _paragraphs(text: str | None) -> list[str]:
    return list(_split(inspect.cleandoc(text or ""))) or [""]


def _split(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n[ ]*\n", text):
        if paragraph.strip():
            yield paragraph.rstrip()
