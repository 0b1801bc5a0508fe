"""The tables of the benchmark page are what the command beside them makes of the committed rows."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aetta.cli import app

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not (ROOT / "benchmarks" / "results").is_dir(), reason="the rows lie in the repository alone")
def test_the_table_of_the_page_is_that_of_the_committed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^\$ aetta (table .*)$", page, flags=re.MULTILINE)
    (shown,) = re.findall(r"<!-- table -->\n\n(.*?)\n\n<!-- end -->", page, flags=re.DOTALL)
    monkeypatch.chdir(ROOT)
    made = CliRunner().invoke(app, command.split())
    assert made.exit_code == 0, made.output
    assert made.output.strip() == shown.strip()
