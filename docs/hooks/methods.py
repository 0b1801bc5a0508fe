"""One page for each adapter, estimator and recovery, from its class: nothing on it can fall behind the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import aetta
from aetta import registry
from aetta._types import Cost
from docs.hooks.docstrings import Docstring, parse

__all__ = ["KINDS", "Kind", "Notes", "index_page", "method_page", "names", "notes", "parameters", "title"]

NOTES = Path(__file__).parents[1] / "methods" / "notes.md"
FIDELITY = Path(__file__).parents[1] / "fidelity.md"
FIRST_LINE = re.compile(
    r"^(?P<title>[^:]+): (?P<about>.*?)(?: \((?P<paper>[^()]*), (?P<link>https?://[^\s()]+)\))?\.?$"
)
NAMED = re.compile(r"`(?P<name>[A-Za-z_]+)`")
HELPERS = {  # what docstrings name without saying where it is
    name: f"../../api/parts.md#aetta.estimators.base.{name}" for name in ("by_agreement", "by_likelihood", "by_share")
} | {
    "Scored": "../../api/parts.md#aetta.estimators.scored.Scored",
    "Cstu": "../../api/nn.md#aetta.nn.memory.Cstu",
    "calibrate": "../../api/parts.md#aetta.estimators.calibration.calibrate",
}
GIVEN = ("model", "source")  # what the monitor hands to whoever asks for it


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the three nouns that have methods.

    singular, plural: Its names in the registry and on the command line.
    heading: What its pages are listed under.
    """

    singular: str
    plural: str
    heading: str


KINDS = (
    Kind("adapter", "adapters", "Adapters"),
    Kind("estimator", "estimators", "Estimators"),
    Kind("recovery", "recoveries", "Recovery rules"),
)


@dataclass(frozen=True, slots=True)
class Notes:
    """What no docstring says: an introduction for each kind, and what each method assumes."""

    introductions: Mapping[str, str]
    assumptions: Mapping[tuple[str, str], str]


def notes(text: str | None = None) -> Notes:
    """The notes in `docs/methods/notes.md`: a heading for each kind, below it one for each method.

    >>> found = notes("# Notes\\n## adapters\\nThey adapt.\\n### tent\\nThat entropy helps.\\n")
    >>> found.introductions["adapters"], found.assumptions["adapters", "tent"]
    ('They adapt.', 'That entropy helps.')
    """
    introductions: dict[str, str] = {}
    assumptions: dict[tuple[str, str], str] = {}
    for part in re.split(r"^## ", text or NOTES.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        introduction, *methods = re.split(r"^### ", part, flags=re.MULTILINE)
        plural, _, said = introduction.partition("\n")
        introductions[plural.strip()] = said.strip()
        for method in methods:
            name, _, said = method.partition("\n")
            assumptions[plural.strip(), name.strip()] = said.strip()
    return Notes(introductions, assumptions)


def names(kind: Kind) -> list[str]:
    """The names of our own methods of a kind; those of installed packages have pages of their own."""
    return sorted(registry.BUILT_IN[kind.singular])


def parameters(made: Any) -> dict[str, inspect.Parameter]:
    """What a constructor takes, by name."""
    catching = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: each for name, each in inspect.signature(made).parameters.items() if each.kind not in catching}


def title(kind: Kind, name: str) -> str:
    """What a method is called in its paper, as the first line of its file has it."""
    return _first_line(registry.find(kind.singular, name))["title"] or name


def method_page(kind: Kind, name: str, said: Notes) -> str:
    """The page of one method, as Markdown."""
    made = registry.find(kind.singular, name)
    line, docstring = _first_line(made), _docstring(made)
    assumed = docstring.assumes or said.assumptions.get((kind.plural, name), "")
    parts = [
        f"# {line['title']} {{ #{made.__module__}.{made.__qualname__} }}",
        f"<p class='subtitle'>{line['about'][0].upper()}{line['about'][1:]}</p>" if line["paper"] else "",
        _linked(docstring.summary, made),
        _facts(kind, name, made, line),
        _linked("\n\n".join(["## How it works", *docstring.prose]), made) if docstring.prose else "",
        f"## What it assumes\n\n{assumed[0].upper()}{assumed[1:]}" if assumed else "",
        _options(made),
        f"## Use\n\n```python\n{_use(kind, name, made)}\n```",
        *(f"In its docstring, and tested:\n\n```pycon\n{example}\n```" for example in docstring.examples),
        _source(made),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def index_page(kind: Kind, said: Notes) -> str:
    """The page that lists a kind: what there is, side by side."""
    rows = [_row(kind, name) for name in names(kind)]
    table = ["| name | what it does | needs | forward | backward |", "| --- | --- | --- | ---: | ---: |", *rows]
    return f"# {kind.heading}\n\n{said.introductions.get(kind.plural, '')}\n\n" + "\n".join(table) + "\n"


def _row(kind: Kind, name: str) -> str:
    made = registry.find(kind.singular, name)
    cost: Cost = made.COST  # type: ignore[attr-defined]
    called = f"[{title(kind, name)}]({name}.md)<br>`{name}`"
    cells = (called, _linked(_docstring(made).summary, made), _needs(made), f"{cost.forwards:g}", f"{cost.backwards:g}")
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _facts(kind: Kind, name: str, made: Any, line: Mapping[str, str]) -> str:
    rows = {
        "name": f"`{name}`, class `{_public(made)}`",
        "paper": f"[{line['paper']}]({line['link']})" if line["paper"] else "",
        "needs": _needs(made),
        "cost": _cost(kind, made.COST),
        "state": ", ".join(f"`{item}`" for item in made.STATE) or "none",
        "sees a collapse": ("yes" if made.SEES_COLLAPSE else "no") if kind.singular == "estimator" else "",
        "fidelity": _fidelity(line["title"]),
        "acts": ("on every batch" if made.ALWAYS else "when called for") if kind.singular == "recovery" else "",
    }
    lines = "\n".join(f"| {what} | {_cell(text)} |" for what, text in rows.items() if text)
    return f'<div class="facts" markdown>\n\n| | |\n| --- | --- |\n{lines}\n\n</div>'


def _fidelity(title: str) -> str:
    """Where to read how it differs from what was published, if it is told of there."""
    told = re.search(rf"\b{re.escape(title)}\b", FIDELITY.read_text(encoding="utf-8"))
    return "[paper, released code and ours](../../fidelity.md)" if told else ""


def _linked(text: str, here: Any) -> str:
    """The text, with the methods it names as links to their pages."""
    return NAMED.sub(lambda found: _link(found["name"], here) or found[0], text)


def _link(name: str, here: Any) -> str:
    page = _pages().get(name) or HELPERS.get(name)
    return f"[`{name}`]({page})" if page and name != here.__name__ else ""


@cache
def _pages() -> dict[str, str]:
    """The page of each method, from one beside it, by the name of its class."""
    return {
        registry.find(kind.singular, name).__name__: f"../{kind.plural}/{name}.md"
        for kind in KINDS
        for name in names(kind)
    }


def _cost(kind: Kind, cost: Cost) -> str:
    if cost == Cost():
        return "no pass of the model"
    included = ", the prediction included" if kind.singular == "adapter" else ", beside the prediction"
    backward = f" and {cost.backwards:g} backward" if cost.backwards else ""
    passes = "pass" if cost == Cost(forwards=1) else "passes"
    return f"{cost.forwards:g} forward{backward} {passes} a batch{included}, with the default options"


def _options(made: Any) -> str:
    """The constructor's options, as a table; what a class inherits is explained where it was written."""
    taken = parameters(made)
    if not taken:
        return ""
    meanings = _meanings(made)
    rows = []
    for parameter in taken.values():
        default = "*required*" if parameter.default is parameter.empty else f"`{_value(parameter.default)}`"
        rows.append(
            f"| `{parameter.name}` | {_cell(default)} | {_cell(_linked(meanings.get(parameter.name, ''), made))} |"
        )
    table = "\n".join(["| option | default | meaning |", "| --- | --- | --- |", *rows])
    return f'## Options\n\n<div class="options" markdown>\n\n{table}\n\n</div>'


def _meanings(made: Any) -> dict[str, str]:
    """What each option means; "See `Roid`" is followed to where it leads."""
    known = parameters(made)
    meanings: dict[str, str] = {}
    for base in inspect.getmro(made):
        for name, meaning in parse(base.__doc__, known).options.items():
            if name not in meanings or meanings[name].startswith("See `"):
                meanings[name] = meaning
    return meanings


def _value(default: Any) -> str:
    return f"{default:.4g}" if isinstance(default, float) else repr(default)


def _use(kind: Kind, name: str, made: Any) -> str:
    """The line that puts it to work: by name, or constructed where it needs more than the model."""
    wanted = [p.name for p in parameters(made).values() if p.default is p.empty]
    if set(wanted) <= set(GIVEN):
        return f'import aetta\n\nmonitor = aetta.monitor(model, {kind.singular}="{name}")'
    module, _, short = _public(made).rpartition(".")
    lines = ["import aetta"] + ([] if module == "aetta" else [f"from {module} import {short}"])
    built = f"{'aetta.' if module == 'aetta' else ''}{short}({', '.join(wanted)})"
    return "\n".join([*lines, "", f"monitor = aetta.monitor(model, {kind.singular}={built})"])


def _source(made: Any) -> str:
    """The file itself: a method reads like its paper."""
    path = Path(inspect.getfile(made))
    code = path.read_text(encoding="utf-8").strip()
    where = "/".join(path.parts[path.parts.index("aetta") :][-3:])
    fenced = f'````python title="{where}"\n{code}\n````'
    indented = "\n".join(f"    {line}" if line else "" for line in fenced.splitlines())
    lines = len(code.splitlines())
    return f'## The whole method {{ data-search-exclude }}\n\n??? abstract "{where}, {lines} lines"\n\n{indented}'


def _first_line(made: Any) -> dict[str, str]:
    """Title, what it is about, paper and link, from the first line of a method's file."""
    module = inspect.getmodule(made)
    text = " ".join(((module and module.__doc__) or "").partition("\n\n")[0].split())
    found = FIRST_LINE.match(text)
    facts = found.groupdict(default="") if found else {"title": "", "about": "", "paper": "", "link": ""}
    return facts if _titled(made, facts["title"]) else facts | {"title": _own_title(made)}


def _titled(made: Any, title: str) -> bool:
    """Whether the title of the file is this class's: one that holds several is called after one of them."""
    beside = [
        where
        for group in registry.BUILT_IN.values()
        for where in group.values()
        if where.startswith(f"{made.__module__}:")
    ]
    return made.__name__.lower() == title.lower() or (len(beside) == 1 and not made.__module__.endswith(".base"))


def _own_title(made: Any) -> str:
    return str(made.__name__.upper() if len(made.__name__) < 5 else made.__name__)


def _docstring(made: Any) -> Docstring:
    return parse(made.__doc__, parameters(made))


def _needs(made: Any) -> str:
    return str(made.NEEDS)


def _public(made: Any) -> str:
    """The shortest path a class can be imported from."""
    return (
        f"aetta.{made.__name__}"
        if getattr(aetta, made.__name__, None) is made
        else f"{made.__module__}.{made.__name__}"
    )


def _cell(text: str) -> str:
    """Text that cannot end a table's cell."""
    return text.replace("|", "\\|").replace("\n", " ")
