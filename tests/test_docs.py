"""The pages of the site that are made from the code say what they should, of everything there is."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import aetta
from aetta import registry
from docs.hooks import docstrings, methods
from docs.hooks.commands import commands
from docs.hooks.methods import KINDS, method_page, names, notes, parameters
from docs.hooks.pages import made

DOCS = Path(__file__).resolve().parents[1] / "docs"
EVERY = [(kind, name) for kind in KINDS for name in names(kind)]
ids = [f"{kind.singular}-{name}" for kind, name in EVERY]


@pytest.fixture(scope="module")
def pages():
    return made()


def section(page, heading):
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].strip()


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=ids)
def test_a_method_has_a_page_with_all_there_is_to_know(kind, name, pages):
    page = pages[f"methods/{kind.plural}/{name}.md"]
    method = registry.find(kind.singular, name)
    assert method.NEEDS in page
    assert re.search(r"\| cost \| (?:no pass|[\d.]+ forward)", page)
    assert len(section(page, "What it assumes")) > 20, f"docs/methods/notes.md has nothing under ### {name}"
    told = dict(re.findall(r"^\| `(\w+)` \| .+? \| (.*) \|$", section(page, "Options"), flags=re.MULTILINE))
    assert list(told) == list(parameters(method))
    assert all(told.values()), f"{method.__name__}'s docstring does not explain {[o for o in told if not told[o]]}"
    link = re.search(r"https?://[^\s()]+", (inspect.getmodule(method).__doc__ or "").partition("\n")[0])
    assert link is None or f"]({link[0]})" in page


def test_the_notes_are_about_methods_there_are():
    said = notes()
    assert set(said.introductions) == {kind.plural for kind in KINDS}
    assert set(said.assumptions) <= {(kind.plural, name) for kind, name in EVERY}


def test_an_inherited_option_is_explained_where_it_was_written():
    (adapters, *_) = KINDS
    page = method_page(adapters, "cmf", notes())
    assert "How little certainty and diversity weigh (tau)." in page
    assert "See `Roid`" not in section(page, "Options")


def test_every_public_name_has_its_place_in_the_site(pages):
    reference = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    shown = set(re.findall(r"(?:::: [\w.]+\.|heading: aetta\.)(\w+)$", reference, flags=re.MULTILINE))
    shown |= set(re.findall(r"class `aetta\.(\w+)`", "".join(pages.values())))
    assert set(aetta.__all__) - shown == set()


def test_every_command_is_on_the_page_of_commands(pages):
    typed = [command for command, _ in commands()]
    assert {"aetta demo", "aetta data get", "aetta export grafana"} <= set(typed)
    assert re.findall(r"^## `(.+)`$", pages["commands.md"], flags=re.MULTILINE) == typed


@pytest.mark.parametrize("module", [docstrings, methods], ids=lambda module: module.__name__.rpartition(".")[2])
def test_examples_in_the_hooks_run(module):
    result = doctest.testmod(module)
    assert result.attempted
    assert result.failed == 0
