"""Schemathesis over the HTTP surface of a running server."""

from __future__ import annotations

import subprocess
import tempfile

__all__ = ["tried"]


def tried(program: str, address: str, token: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Every check on every route, but two things no description can say.

    How many numbers a tensor has follows from its shape, so that what fits the description need not be a request; and
    the answer of the event stream has no end.
    """
    command = [program, "run", f"{address}/openapi.json", f"--header=Authorization: Bearer {token}"]
    command += ["--exclude-path=/v1/events", "--exclude-checks=positive_data_acceptance", "--continue-on-failure"]
    command += ["--request-timeout=20", "--seed=1", "--no-color", *more]
    with tempfile.TemporaryDirectory() as folder:  # it keeps what it found beside itself
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=folder)
