"""What the README and the guide say works, as they say it."""

import re
from pathlib import Path

import pytest
import torch

from aetta.testing import tiny_images, tiny_model

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block{i}" for i in range(len(BLOCKS))])
def test_python_in_the_readme_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(block, {"model": tiny_model(), "stream": [tiny_images(seed) for seed in range(2)], "torch": torch})


def test_commands_in_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))
    asked = set(re.findall(r"`make ([a-z]+)`", README)) | set(
        re.findall(r"^\$ make ([a-z]+)", README, flags=re.MULTILINE)
    )
    assert asked
    assert asked <= targets


def test_links_lead_somewhere():
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://", "mailto:")):
                assert (path.parent / target).exists(), f"{path.name} links to {target}, which is not there"


def test_what_the_demo_needs_is_pinned():
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    for package in ("torch==2.13.0", "numpy==", "scikit-learn==", "kornia==", "typer==", "pytest=="):
        assert package in pinned
