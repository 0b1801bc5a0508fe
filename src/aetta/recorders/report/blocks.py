"""The small blocks of a report: figures, paragraphs, tables, histograms, strips of images."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO

import numpy as np
from PIL import Image
from torch import Tensor

__all__ = ["figures", "histograms", "paragraphs", "percent", "strip", "table"]


def percent(share: float | None) -> str:
    """A share as text, in percent.

    >>> percent(0.8125).replace("\\N{NO-BREAK SPACE}", " "), percent(None)
    ('81.2 %', 'unknown')
    """
    return "unknown" if share is None else f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def paragraphs(*texts: str) -> str:
    """Plain text, a paragraph each."""
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def figures(values: Sequence[tuple[str, str, str]]) -> str:
    """Large numbers side by side: what each is, the number, and a remark under it."""
    cards = (
        f'<div class="figure"><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(remark)}</small></dd></div>'
        for name, value, remark in values
    )
    return f'<dl class="figures">{"".join(cards)}</dl>'


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    """A table; the first column names the row. A cell that starts with "<img" is kept as it is.

    >>> table(["model", "accuracy"], [["a & b", "81.2 %"]])
    '<div class="scroll"><table><thead>...<th scope="row">a &amp; b</th><td>81.2 %</td>...'
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "\n".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{_cell(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="scroll"><table>{title}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def histograms(shares: Mapping[str, Sequence[float]], *, expected: Sequence[float], names: Sequence[str]) -> str:
    """How often each class is predicted, once for each title in `shares`; a tick marks how often it really came."""
    return f'<div class="histograms">{"".join(_histogram(t, s, expected, names) for t, s in shares.items())}</div>'


def _histogram(title: str, shares: Sequence[float], expected: Sequence[float], names: Sequence[str]) -> str:
    spoken = ", ".join(f"{name}: {percent(share)}" for name, share in zip(names, shares, strict=True))
    bars = "".join(
        f'<div class="bar" title="class {escape(name)}: predicted {percent(share)}, true {percent(truth)}">'
        f'<i style="height:{100 * share:.1f}%"></i><b style="bottom:{100 * truth:.1f}%"></b>'
        f"<span>{escape(name)}</span></div>"
        for name, share, truth in zip(names, shares, expected, strict=True)
    )
    return (
        f'<figure class="histogram" role="img" aria-label="{escape(title)}. {escape(spoken)}">'
        f'<figcaption>{escape(title)}</figcaption><div class="bars" aria-hidden="true">{bars}</div></figure>'
    )


def strip(images: Tensor, *, alt: str) -> str:
    """Images [n, channels, height, width] in [0, 1] side by side, as one picture inside the page."""
    row = np.concatenate([np.asarray(image.permute(1, 2, 0).mul(255).round().byte()) for image in images.cpu()], axis=1)
    picture, buffer = Image.fromarray(row.squeeze()), BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    data = base64.b64encode(buffer.getvalue()).decode()
    size = f'width="{picture.width}" height="{picture.height}"'
    return f'<img class="strip" {size} alt="{escape(alt)}" src="data:image/png;base64,{data}">'


def _cell(text: str) -> str:
    return text if text.startswith("<img ") else escape(text)
