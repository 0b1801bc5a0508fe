"""`aetta serve`: what it makes of its options. The server itself is tested in tests/serving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import aetta
from aetta.cli import app
from aetta.serving import Settings

TOKEN = "a-token-of-some-length"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What the command would have run."""
    seen: dict[str, Any] = {}

    def run(monitor: aetta.Monitor, settings: Settings, **options: Any) -> None:
        seen.update(monitor=monitor, settings=settings, **options)

    monkeypatch.setattr("aetta.serving.run", run)
    monkeypatch.setattr("aetta.serving.logs.log_as_json", lambda: None)
    monkeypatch.delenv("AETTA_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    return seen


def test_the_defaults_are_safe(started: dict[str, Any]) -> None:
    result = CliRunner().invoke(app, ["serve", "cifar_resnet20"])
    assert result.exit_code == 0, result.output
    settings = started["settings"]
    assert (started["host"], settings.token, settings.name) == ("127.0.0.1", None, "cifar_resnet20")
    assert (settings.shape, settings.digest) == ((3, 32, 32), "background")
    monitor = started["monitor"]
    assert type(monitor.adapter).__name__ == "Tent"
    assert list(monitor.estimators) == ["aetta"]


def test_parts_and_their_options(started: dict[str, Any]) -> None:
    arguments = ["--adapter", "tent", "--estimator", "softmax_score", "--estimator", "aetta", "--recovery", "periodic"]
    more = ["--set", "adapter.learning_rate=0.5", "--set", "recovery.every=7", "--wait", "5", "--digest", "lockstep"]
    result = CliRunner().invoke(app, ["serve", "cifar_resnet20", *arguments, *more])
    assert result.exit_code == 0, result.output
    monitor, settings = started["monitor"], started["settings"]
    assert monitor.adapter.optimizer.param_groups[0]["lr"] == 0.5
    assert monitor.recovery.every == 7
    assert list(monitor.estimators) == ["softmax_score", "aetta"]
    assert settings.wait == 0.005
    assert settings.description["options"] == ["adapter.learning_rate=0.5", "recovery.every=7"]


def test_the_token_comes_from_the_environment_or_a_file(
    started: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AETTA_TOKEN", TOKEN)
    CliRunner().invoke(app, ["serve", "cifar_resnet20"])
    assert started["settings"].token == TOKEN
    (tmp_path / "token").write_text("another-token-of-some-length\n")
    CliRunner().invoke(app, ["serve", "cifar_resnet20", "--token-file", "token"])
    assert started["settings"].token == "another-token-of-some-length"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "--allow-host"),
        (["--set", "learning_rate=1"], "adapter.NAME=VALUE"),
        (["--set", "adapter.nonsense=1"], "nonsense"),
        (["--adapter", "tnet"], "did you mean 'tent'"),
        (["--token-file", "nowhere"], "nowhere"),
        (["--digest", "sometimes"], "background or lockstep"),
        (["--alarm-below", "0.5"], "AETTA_WEBHOOK"),
    ],
)
def test_what_cannot_be_is_a_message(arguments: list[str], said: str, started: dict[str, Any]) -> None:
    result = CliRunner().invoke(app, ["serve", "cifar_resnet20", *arguments])
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert not started
