"""The multi-process service is started for a block, and ended with it; a script stands in for NVIDIA's program."""

import os
from pathlib import Path

import pytest

from aetta.bench.mps import CONTROL, shared_gpu
from aetta.errors import BadOption

SCRIPT = """#!/bin/sh
echo "$@ $(cat) $CUDA_MPS_PIPE_DIRECTORY" >> {told}
echo "no GPU here" > "$CUDA_MPS_LOG_DIRECTORY/control.log"
exit {code}
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Where the program that stands in writes what it was told; its exit code is the test's parameter."""
    program, told = tmp_path / CONTROL, tmp_path / "told"
    program.write_text(SCRIPT.format(told=told, code=getattr(request, "param", 0)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return told


def test_the_service_ends_with_its_block_also_after_an_error(told: Path) -> None:
    before = dict(os.environ)
    folders = []

    def failing() -> None:
        with shared_gpu():
            folders.append(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
            assert Path(folders[0]).is_dir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    (folder,) = folders
    assert told.read_text().split() == ["-d", folder, "quit", folder]
    assert not Path(folder).exists()
    assert dict(os.environ) == before


@pytest.mark.parametrize("told", [3], indirect=True)
def test_a_service_that_does_not_start_is_told_with_what_it_said(told: Path) -> None:
    with pytest.raises(BadOption, match=r"exit code 3.*no GPU here"), shared_gpu():
        raise AssertionError
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ


def test_a_machine_without_it_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BadOption, match=f"{CONTROL} is not on the path"), shared_gpu():
        raise AssertionError
