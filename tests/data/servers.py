"""A server on this machine that behaves as badly as it is told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Manners:
    """How one file is served.

    break_after: Bytes after which each answer breaks off; None serves to the end.
    breaks: How many answers do so.
    claims: The length it states, where that is a lie.
    ranges: Whether it can go on in the middle; "wrong" goes on elsewhere than asked.
    html: Serve a web page: as one ("typed"), or as if it were the file ("untyped").
    status: The status of the first answers.
    """

    body: bytes = b""
    break_after: int | None = None
    breaks: int = 10**6
    claims: int | None = None
    ranges: bool | str = True
    html: str = ""
    status: list[int] = field(default_factory=list)
    length: bool = True
    asked: list[str] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    files: dict[str, Manners]

    def do_GET(self) -> None:
        manners = self.files.get(self.path.strip("/").partition("?")[0])
        if manners is None:
            self.send_error(404)
            return
        asked = self.headers.get("Range", "")
        manners.asked.append(asked)
        if manners.status:
            self.send_error(manners.status.pop(0))
            return
        page = b"  <!DOCTYPE html><html><body>Sign in to go on</body></html>"
        body = page if manners.html else manners.body
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and manners.ranges else 0
        if start > len(body) or (start and start == len(body)):
            self.send_error(416)
            return
        rest = body[start:]
        self.send_response(206 if start else 200)
        if start:
            told = start + 1 if manners.ranges == "wrong" else start
            self.send_header("Content-Range", f"bytes {told}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Type", "text/html; charset=utf-8" if manners.html == "typed" else "application/x-tar")
        if manners.length:
            self.send_header("Content-Length", str(len(rest) if manners.claims is None else manners.claims - start))
        self.end_headers()
        if manners.break_after is not None and manners.breaks > 0:
            manners.breaks -= 1
            rest = rest[: manners.break_after]
        self.wfile.write(rest)
        self.wfile.flush()
        self.close_connection = True

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serving(**files: Manners) -> Iterator[str]:
    """The address of a server of these files, by name with _ for a dot."""
    handler = type("Handler", (_Handler,), {"files": {name.replace("_", "."): how for name, how in files.items()}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
