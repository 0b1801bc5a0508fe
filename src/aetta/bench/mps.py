"""NVIDIA's multi-process service: kernels of several processes run on a GPU at once, and not in turns."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aetta.errors import BadOption

__all__ = ["shared_gpu"]

CONTROL = "nvidia-cuda-mps-control"
PATIENCE = 30.0  # seconds


@contextmanager
def shared_gpu() -> Iterator[None]:
    """Within it, processes that are started share the GPU through a service of their own, which ends with the block.

    No process may have touched the GPU before it is started here.
    """
    if shutil.which(CONTROL) is None:
        raise BadOption(f"{CONTROL} is not on the path; it comes with NVIDIA's driver for data centers")
    with tempfile.TemporaryDirectory(prefix="aetta-mps-", ignore_cleanup_errors=True) as folder:
        places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        with _environment(places):
            started = _control("-d")
            if started.returncode:
                raise BadOption(f"{CONTROL} -d failed (exit code {started.returncode}): {_said(started, Path(folder))}")
            try:
                yield
            finally:
                _control(said="quit\n")


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _control(*arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
    command = [CONTROL, *arguments]
    return subprocess.run(command, input=said, capture_output=True, text=True, timeout=PATIENCE)  # noqa: S603  (ours)


def _said(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    logs = [path.read_text().strip() for path in sorted(folder.glob("*.log"))]
    return " ".join([done.stdout.strip(), done.stderr.strip(), *logs]).strip() or "it did not say why"
