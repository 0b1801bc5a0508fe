"""What the README and the guide say works, as they say it."""

import re
from pathlib import Path

import pytest
import torch
import typer

from aetta.cli import app
from aetta.testing import tiny_images, tiny_model
from docs.hooks.pages import COPIED, made

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SESSIONS = ("quickstart", "concepts")  # whose blocks follow on one another
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def fenced(page: Path) -> list[tuple[str, str]]:
    """The blocks of a page, each with its language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", text, flags=re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    """The Python of a page, block by block, each with the text that the page says it prints."""
    found = fenced(page)
    after = [*found[1:], ("", "")]
    return [
        (code, printed if kind == "text" else "")
        for (language, code), (kind, printed) in zip(found, after, strict=False)
        if language == "python"
    ]


def typed(page: Path) -> list[str]:
    """The commands of ours that a page has one type at a shell."""
    shells = [text for language, text in fenced(page) if language in ("", "console")]
    lines = "\n".join(shells).replace("\\\n", " ").splitlines()
    commands = [line.removeprefix("$ ").partition(" #")[0].strip() for line in lines]
    return [command for command in commands if command.startswith("aetta ")]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_python_that_stands_alone_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks(ROOT / page)
    assert found
    for code, _ in found:
        exec(code, {"model": tiny_model(), "stream": [tiny_images(seed) for seed in range(2)], "torch": torch})


@pytest.mark.parametrize("page", SESSIONS)
def test_a_session_runs_and_prints_what_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {}
    found = blocks(ROOT / "docs" / f"{page}.md")
    assert found
    for code, printed in found:
        exec(code, session)
        assert_alike(capsys.readouterr().out, printed)


def assert_alike(told: str, promised: str) -> None:
    """The same words; the same numbers as far as another processor gives them."""
    assert NUMBER.sub("#", told).split() == NUMBER.sub("#", promised).split(), told
    for number, other in zip(NUMBER.findall(told), NUMBER.findall(promised), strict=True):
        assert float(number) == pytest.approx(float(other), abs=15), told


@pytest.mark.parametrize("page", [page for page in PAGES if typed(page)], ids=lambda page: page.stem)
def test_commands_exist_with_their_options(page):
    for command in typed(page):
        words, here = command.split()[1:], typer.main.get_command(app)
        while words and hasattr(here, "commands"):
            name = words.pop(0)
            assert name in here.commands, f"{page.name}: {command}"
            here = here.commands[name]
        known = {option for parameter in here.params for option in (*parameter.opts, *parameter.secondary_opts)}
        asked = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert asked <= known, f"{page.name}: {command}"


def test_commands_in_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))
    asked = set(re.findall(r"`make ([a-z]+)`", README)) | set(
        re.findall(r"^\$ make ([a-z]+)", README, flags=re.MULTILINE)
    )
    assert asked
    assert asked <= targets


def test_links_lead_somewhere():
    generated = {(ROOT / "docs" / page).resolve() for page in (*made(), *COPIED)}  # `make docs` checks those, too
    for path in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://", "mailto:")) and path.name != "notes.md":
                there = (path.parent / target).resolve()
                assert there.exists() or there in generated, f"{path.name} links to {target}, which is not there"


def test_what_the_demo_needs_is_pinned():
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    for package in ("torch==2.13.0", "numpy==", "scikit-learn==", "kornia==", "typer==", "pytest=="):
        assert package in pinned
