"""A report as one self-contained HTML page: pure functions from rows, as `Jsonl` writes them, to text.

The page opens from disk, loads nothing, and reads well in light and dark, wide and narrow, with a keyboard or aloud.
"""

from aetta.recorders.report.blocks import figures, histograms, paragraphs, percent, strip, table
from aetta.recorders.report.chart import accuracy_chart, legend
from aetta.recorders.report.page import Section, page

__all__ = [
    "Section",
    "accuracy_chart",
    "figures",
    "histograms",
    "legend",
    "page",
    "paragraphs",
    "percent",
    "strip",
    "table",
]
