"""What mkdocs asks while it builds the site: pages are made, drawings put in, and nothing may be loaded from afar."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from docs.hooks.methods import KINDS, names, title
from docs.hooks.pages import COPIED, ROOT, made

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

__all__ = ["on_config", "on_files", "on_page_markdown", "on_post_page"]

WIDE = {"fidelity.md", "methods/adapters/index.md", "methods/estimators/index.md", "methods/recoveries/index.md"}
DRAWING = re.compile(r"!\[(?P<what>[^\]]*)\]\((?P<path>[^)]+\.svg)\)")
FROM_AFAR = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s>]+"
    r"|<link\b[^>]*\brel=[\"']?(?:stylesheet|preconnect|icon)[^>]*href=[\"']?(?:https?:)?//[^\s>]+"
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every method into the navigation, and leave out the pages that are to come and are not there yet."""
    to_come = {page for page in config.extra["to_come"] if not (Path(config.docs_dir) / page).exists()}
    config.nav = [entry for entry in (_completed(each, to_come) for each in config.nav or []) if entry]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made and those that are kept elsewhere."""
    for place, origin in COPIED.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / origin)))
    for place, text in made().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give wide tables room, and put drawings into the page itself, where they follow its colours."""
    if page.file.src_uri in WIDE:
        page.meta.setdefault("hide", []).append("toc")
    folder = (Path(config.docs_dir) / page.file.src_uri).parent
    return DRAWING.sub(lambda found: _inlined(folder / found["path"], found["what"]), markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that would load anything from another host."""
    found = FROM_AFAR.search(output)
    if found:
        raise PluginError(f"{page.file.src_uri} would load from afar: {found[0]}")
    return output


def _completed(entry: Any, to_come: set[str]) -> Any:
    """A navigation entry, with a folder of methods replaced by its pages; None for a page that is to come."""
    if isinstance(entry, str):
        return None if entry in to_come else entry
    ((heading, inside),) = entry.items()
    if isinstance(inside, list):
        return {heading: [made for made in (_completed(each, to_come) for each in inside) if made]}
    for kind in KINDS:
        if inside == f"methods/{kind.plural}/":
            pages = sorted(names(kind), key=lambda name: title(kind, name).lower())
            return {heading: [f"{inside}index.md", *({title(kind, name): f"{inside}{name}.md"} for name in pages)]}
    return None if inside in to_come else entry


def _inlined(path: Path, what: str) -> str:
    drawing = path.read_text(encoding="utf-8").strip().replace("\n", " ")
    return f'<figure class="drawing" role="img" aria-label="{what}">{drawing}</figure>'
