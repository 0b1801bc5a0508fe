"""The tables of the benchmark page are what the command beside them makes of the committed rows."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aetta.cli import app
from tests.bench.makers import shown_tables

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


def test_the_table_beside_the_authors_code_is_that_of_the_committed_rows(shared: Path) -> None:
    authors = pytest.importorskip("benchmarks.authors", reason="benchmarks lie in the repository alone")
    (shown,) = shown_tables(ROOT / "docs" / "benchmarks.md", "authors")
    rows = authors.results_in(ROOT / "benchmarks" / "results" / "authors.jsonl.gz")
    theirs = authors.read_table(shared / "README.md", "CIFAR-10")
    table, far = authors.compared("CIFAR-10", theirs, {result.cell.adapter.name: result for result in rows})
    assert shown == table + "\n"
    assert far == ("**" in table)
    assert table.count("**") == 2 * 3, "TENT's accuracy, and what follows it"
