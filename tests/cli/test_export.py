"""`aetta export`: to the screen, or to a file."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from aetta.cli import app
from aetta.recorders.alerts import alert_rules


def test_alerts_go_to_the_screen() -> None:
    result = CliRunner().invoke(app, ["export", "alerts", "--below", "0.6"])
    assert result.exit_code == 0
    assert result.stdout == alert_rules(below=0.6)


def test_the_dashboard_goes_to_a_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["export", "grafana", "--out", str(tmp_path / "deep" / "aetta.json")])
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads((tmp_path / "deep" / "aetta.json").read_text())["title"] == "aetta"


def test_a_bad_option_is_a_message() -> None:
    result = CliRunner().invoke(app, ["export", "alerts", "--below", "60"])
    assert (result.exit_code, result.stderr) == (2, "error: below is 60.0; it must be a fraction between 0 and 1\n")
