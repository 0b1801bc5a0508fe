"""What a server is told when it starts: what to serve, how, and within which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aetta.errors import BadOption

__all__ = ["Limits", "Settings"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one client, and all of them together, may ask for.

    body: Bytes of one request.
    bytes_waiting: Bytes of all requests that are being read or answered.
    images: Of one request.
    queue: Images that wait to be answered; above it, 429.
    id_length: Characters of a request's id.
    read, write, answer: Seconds to send a request, to take an answer, and until an answer is given up.
    connections, streams: At once; event streams are connections too.
    """

    body: int = 16 << 20
    bytes_waiting: int = 128 << 20
    images: int = 256
    queue: int = 1024
    id_length: int = 128
    read: float = 10.0
    write: float = 10.0
    answer: float = 30.0
    connections: int = 256
    streams: int = 32


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a model is served.

    name: Of the model, in addresses and metrics.
    shape: Of one image, [channels, height, width]; others are refused.
    state: The folder of checkpoints, journals and the audit log; one server owns it.
    description: What it was built from; kept in every checkpoint, so that an export can build it again.
    batch: Small requests are put together up to so many images.
    wait: For how long the first of them waits for more, in seconds.
    digest: "background": answers never wait for learning. "lockstep": each batch is digested before the next.
    backlog: Batches that may wait to be digested in the background; when they are so many, one is skipped.
    every: A checkpoint after so many digested batches.
    keep: How many checkpoints are kept.
    learn_from: "all" requests, or those with the "token".
    token: What control and feedback ask for; without one they are off.
    hosts: Names the server may be addressed by.
    threads: Of torch, for serving and for digesting each; torch's own choice if not given.
    """

    name: str
    shape: tuple[int, ...]
    state: Path
    description: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 64
    wait: float = 0.002
    digest: Literal["background", "lockstep"] = "background"
    backlog: int = 4
    every: int = 50
    keep: int = 5
    learn_from: Literal["all", "token"] = "all"
    token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    threads: int | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.name or not all(c.isalnum() or c in "._-" for c in self.name) or len(self.name) > 100:
            raise BadOption(f"the model is called {self.name!r}; letters, digits, '.', '_' and '-' are possible")
        if len(self.shape) < 1 or min(self.shape) < 1:
            raise BadOption(f"the shape of an image is {self.shape}; it must be positive numbers, such as (3, 32, 32)")
        if min(self.batch, self.backlog, self.every, self.keep) < 1 or self.wait < 0:
            raise BadOption(
                f"batch {self.batch}, backlog {self.backlog}, every {self.every} and keep {self.keep} must be at "
                f"least 1, and wait {self.wait} at least 0"
            )
        if self.digest not in ("background", "lockstep") or self.learn_from not in ("all", "token"):
            raise BadOption(
                f"digest is {self.digest!r} (background or lockstep), learn_from {self.learn_from!r} (all or token)"
            )
        if self.token is not None and len(self.token) < 16:
            raise BadOption(
                f"the token has {len(self.token)} characters; at least 16 are needed, such as from "
                "python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        if self.learn_from == "token" and self.token is None:
            raise BadOption("learn_from is 'token', and there is no token: no request could ever be learned from")
