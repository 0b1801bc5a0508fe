"""`aetta list`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from aetta import registry
from aetta.cli import app


@pytest.mark.parametrize(
    ("plural", "kind"),
    [("adapters", "adapter"), ("estimators", "estimator"), ("recoveries", "recovery"), ("models", "model")],
)
def test_every_name_is_listed_with_what_it_does(plural: str, kind: str) -> None:
    result = CliRunner().invoke(app, ["list", plural, "--json"])
    assert result.exit_code == 0
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert sorted(rows) == sorted(registry.names(kind))
    assert all(row["what"].endswith(".") for row in rows.values())


def test_a_method_shows_its_paper_needs_cost_and_defaults() -> None:
    rows = {row["name"]: row for row in json.loads(CliRunner().invoke(app, ["list", "adapters", "--json"]).stdout)}
    tent = rows["tent"]
    assert tent["paper"] == "Wang et al., ICLR 2021, https://arxiv.org/abs/2006.10726"
    assert tent["needs"] == "BatchNorm, GroupNorm or LayerNorm"
    assert tent["cost"] == {"forwards": 2, "backwards": 1}
    assert tent["options"]["learning_rate"] == 1e-3
    text = CliRunner().invoke(app, ["list", "adapters"]).stdout
    for expected in (tent["paper"], tent["needs"], "learning_rate=0.001", "2 forward, 1 backward passes a batch"):
        assert expected in text


def test_an_unknown_list_suggests_the_closest() -> None:
    result = CliRunner().invoke(app, ["list", "adaptors"])
    assert result.exit_code == 2
    assert "did you mean 'adapters'?" in result.stderr


def test_a_plug_in_that_cannot_be_imported_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    known = registry.names("adapter") | {"broken": "no_such_module:Thing"}
    monkeypatch.setattr(registry, "names", lambda kind: known)
    rows = {row["name"]: row for row in json.loads(CliRunner().invoke(app, ["list", "adapters", "--json"]).stdout)}
    assert "no_such_module" in rows["broken"]["error"]
    assert rows["tent"]["what"]
    assert "no_such_module" in CliRunner().invoke(app, ["list", "adapters"]).stdout
