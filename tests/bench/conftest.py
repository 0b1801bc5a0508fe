from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from aetta.bench.sweep import Settings
from aetta.bench.workspace import Workspace


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Where cells run: one cache for all tests."""
    return Settings(data=None, cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def workspace(settings: Settings) -> Workspace:
    return settings.workspace()


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "results"
