"""`aetta demo` plays, tells and writes; its report stands alone."""

import json
import re

import pytest
from typer.testing import CliRunner

from aetta.bench import demo
from aetta.bench.demo import Setting
from aetta.bench.demo.play import ADAPTED, RECOVERED, RUNS
from aetta.cli import app

pytest.importorskip("sklearn", reason="the digits come with scikit-learn: pip install 'aetta[demo]'")
SHORT = Setting(
    corruptions=("gaussian_noise", "glass_blur", "contrast"), rounds=2, batches=6, batch_size=32, learning_rate=0.3
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    demo.perform(SHORT).write(out)
    return out


def test_the_summary_has_what_a_program_reads(folder):
    summary = json.loads((folder / "summary.json").read_text())
    keys = {"source_accuracy", "adapted_accuracy", "recovered_accuracy", "estimate_mae", "resets", "seconds"}
    assert keys <= set(summary)
    assert all(0 <= summary[key] <= 1 for key in keys - {"resets", "seconds"})


def test_there_is_a_row_for_each_batch_and_run(folder):
    rows = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert len(rows) == SHORT.steps * len(RUNS)
    assert {row["run"] for row in rows} == set(RUNS)
    assert all(0 <= row["estimates"]["aetta"]["low"] <= row["estimates"]["aetta"]["high"] <= 1 for row in rows)


def test_adaptation_collapses_and_recovery_does_not(folder):
    runs = json.loads((folder / "summary.json").read_text())["runs"]
    assert runs[ADAPTED]["best"] - runs[ADAPTED]["last"] > 0.05
    assert runs[RECOVERED]["accuracy"] > runs[ADAPTED]["accuracy"]
    assert runs[RECOVERED]["resets"] >= 1


def test_the_report_stands_alone(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    loaded = re.findall(r"""(?:src|href)\s*=\s*["']([^"'#][^"']*)""", page) + re.findall(r"url\(([^)]+)\)", page)
    assert all(address.strip("'\"").startswith("data:") for address in loaded), "the report loads something"
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page
    assert "<svg" in page
    assert 'lang="en"' in page


def test_the_same_seed_makes_the_same_rows(folder):
    again = demo.perform(SHORT)
    rows = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    plain = json.loads(json.dumps(again.rows))
    for row in (*rows, *plain):
        row.pop("seconds", None)
    assert plain == rows


def test_the_command_plays_it(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "QUICK", SHORT)
    result = CliRunner().invoke(app, ["demo", "--quick", "--seed", "1", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "adaptation + recovery" in result.output
    assert (tmp_path / "out" / "report.html").is_file()
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["setting"]["seed"] == 1


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    result = CliRunner().invoke(app, ["demo", "--quick", "--out", str(tmp_path / "taken")])
    assert result.exit_code == 2
    assert "which is a file" in result.output


def test_the_weights_are_small():
    from aetta.data.digits import network

    assert network.WEIGHTS.stat().st_size < 1_000_000
