"""The pages and pictures of the site that are no files in `docs/`: made from the code, or kept elsewhere."""

from __future__ import annotations

from pathlib import Path

from docs.hooks.commands import commands_page
from docs.hooks.methods import KINDS, index_page, method_page, names, notes

__all__ = ["COPIED", "ROOT", "made"]

ROOT = Path(__file__).parents[2]
COPIED = {
    "write-a-method.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
    "images/icon.svg": "src/aetta/serving/page/icon.svg",
}


def made() -> dict[str, str]:
    """Every page that is made, by its place in the site."""
    said = notes()
    pages = {"commands.md": commands_page()}
    for kind in KINDS:
        folder = f"methods/{kind.plural}"
        pages[f"{folder}/index.md"] = index_page(kind, said)
        pages |= {f"{folder}/{name}.md": method_page(kind, name, said) for name in names(kind)}
    return pages
