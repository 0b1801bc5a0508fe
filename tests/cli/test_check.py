"""`aetta check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aetta.cli import app
from aetta.cli.output import console

RESTLESS = '''
import torch
from aetta import Adapter

class Restless(Adapter):
    """Draws from torch's global randomness."""

    def _adapt(self, images, logits):
        torch.rand(1)
        return None
'''


def test_a_class_that_keeps_the_contract_passes() -> None:
    result = CliRunner().invoke(app, ["check", "aetta.recovery:Periodic", "--json"])
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["passed"] is True
    assert len(report["checks"]) >= 3
    assert set(report["checks"].values()) == {None}


def test_a_class_called_as_an_emoji_is_shown_by_its_name() -> None:
    result = CliRunner().invoke(app, ["check", "aetta:Tent"])
    assert result.exit_code == 0
    assert "aetta:Tent: 12 of 12 checks passed" in result.stdout


def test_a_registered_name_is_enough() -> None:
    result = CliRunner().invoke(app, ["check", "periodic"])
    assert result.exit_code == 0
    assert "recovery tells the truth" in result.stdout


def test_a_name_with_colons_is_printed_as_it_is() -> None:
    screen = console()
    with screen.capture() as told:
        screen.print("aetta.adapters.tent:Tent: 12 of 12 checks passed")
    assert told.get() == "aetta.adapters.tent:Tent: 12 of 12 checks passed\n"


def test_a_class_that_breaks_the_contract_fails_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "restless_adapter.py").write_text(RESTLESS)
    monkeypatch.chdir(tmp_path)  # what lies in the working folder can be named
    result = CliRunner().invoke(app, ["check", "restless_adapter:Restless"])
    assert result.exit_code == 1
    assert "FAIL" in result.stdout
    assert "own an aetta.Rng" in result.stdout


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("perodic", "did you mean 'periodic'?"),
        ("no_such_module:Thing", "'no_such_module' cannot be imported"),
        ("aetta.adapters:Tnet", "did you mean 'Tent'?"),
        ("aetta.models:ResNet", "is no Adapter, Estimator or Recovery"),
        ("aetta.models:load_weights", "is a function, not a class"),
    ],
)
def test_what_cannot_be_checked_is_an_error_that_helps(target: str, said: str) -> None:
    result = CliRunner().invoke(app, ["check", target])
    assert result.exit_code == 2
    assert said in result.stderr
