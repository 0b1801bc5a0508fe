"""A request that is not answered as asked, and why."""

from __future__ import annotations

import math

__all__ = ["Refused", "busy"]


class Refused(Exception):
    """What to answer instead.

    status: Of HTTP.
    message: For the client: about its request, and nothing else.
    """

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def busy(status: int, message: str, seconds: float) -> Refused:
    """A refusal that says when to try again.

    >>> busy(429, "later", 1.2).headers
    {'Retry-After': '2'}
    """
    return Refused(status, message, Retry_After=str(max(1, math.ceil(seconds))))
