"""What more than one test needs: where the shared images and models lie, and settings every test runs under."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
import torch

torch.set_num_threads(
    1
)  # small tensors: threads would only wait for one another, and processes already share the cores
REPOSITORY = Path(__file__).resolve().parents[1]


def shared_path() -> Path | None:
    """The folder of shared images, models and goldens, or None where there is none.

    `AETTA_SHARED` names it; by default it is the folder `shared` beside the checkout.
    """
    path = Path(os.environ.get("AETTA_SHARED") or REPOSITORY.parent / "shared")
    return path if (path / "README.md").is_file() else None


def require_shared() -> Path:
    """The shared folder; skips the test where it is absent, and fails it where `AETTA_REQUIRE_SHARED=1` asks for it."""
    path = shared_path()
    if path is not None:
        return path
    reason = "the shared images and models are absent: set AETTA_SHARED to the folder that holds them"
    if os.environ.get("AETTA_REQUIRE_SHARED") == "1":
        pytest.fail(f"{reason} (AETTA_REQUIRE_SHARED=1 makes this a failure)", pytrace=False)
    pytest.skip(reason)


def require_program(name: str, install: str) -> str:
    """Where a program is; skips the test where it is absent, and fails it where `AETTA_REQUIRE_PROGRAMS=1` asks for it.

    install: How to get it.
    """
    beside = Path(sys.executable).parent  # what pip installed, also where that folder is on no path
    found = shutil.which(name) or shutil.which(name, path=str(beside))
    if found is not None:
        return found
    reason = f"{name} is absent: {install}"
    if os.environ.get("AETTA_REQUIRE_PROGRAMS") == "1":
        pytest.fail(f"{reason} (AETTA_REQUIRE_PROGRAMS=1 makes this a failure)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared folder, or a skip with the reason."""
    return require_shared()


@pytest.fixture(autouse=True)
def _global_randomness_is_fixed() -> None:
    """Tests that draw from torch's global randomness see the same draws, whatever ran before them."""
    torch.manual_seed(0)
