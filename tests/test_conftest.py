from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import require_shared, shared_path


def test_the_environment_names_the_shared_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text("images")
    monkeypatch.setenv("AETTA_SHARED", str(tmp_path))
    assert shared_path() == tmp_path


def test_absence_skips_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AETTA_SHARED", str(tmp_path / "nowhere"))
    monkeypatch.delenv("AETTA_REQUIRE_SHARED", raising=False)
    with pytest.raises(pytest.skip.Exception, match="AETTA_SHARED"):
        require_shared()


def test_absence_fails_where_it_is_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AETTA_SHARED", str(tmp_path / "nowhere"))
    monkeypatch.setenv("AETTA_REQUIRE_SHARED", "1")
    with pytest.raises(pytest.fail.Exception, match="AETTA_REQUIRE_SHARED"):
        require_shared()
