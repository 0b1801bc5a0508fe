"""A real browser: headless Chromium, told what to do over a pipe (the Chrome DevTools protocol)."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Browser"]

FLAGS = """
    --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking --disable-sync
    --disable-component-update --disable-quic --no-first-run --hide-scrollbars --remote-debugging-pipe
"""
MIDDLE = """(() => {{
    const element = document.querySelector({});
    element.scrollIntoView({{block: "center"}});
    const box = element.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2, box.width * box.height];
}})()"""
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}


class Browser:
    """One page in a browser of its own.

    program: Chromium.
    wide, high: Of the window, in pixels.
    """

    def __init__(self, program: str, wide: int = 1280, high: int = 900) -> None:
        self.problems: list[str] = []
        self._size = (wide, high)
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        high_ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_in, theirs_out)]  # above 3 and 4
        quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
        pipes = [(os.POSIX_SPAWN_DUP2, end, number) for end, number in zip(high_ends, (3, 4), strict=True)]
        command = [program, *FLAGS.split(), f"--user-data-dir={self._profile.name}", f"--window-size={wide},{high}"]
        self._process = os.posix_spawn(program, command, os.environ, file_actions=[*quiet, *pipes])
        for end in (theirs_in, theirs_out, *high_ends):
            os.close(end)
        self._rest, self._number, self._session = b"", 0, ""

    def __enter__(self) -> Self:
        target = self._tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._tell(f"{domain}.enable")
        self.resize(*self._size)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()

    # What a user does

    def open(self, address: str) -> None:
        self._tell("Page.navigate", url=address)
        self.until(lambda: self.value("document.readyState") == "complete", "the page has loaded")

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element, which must be there to be seen."""
        box = self.value(MIDDLE.format(json.dumps(selector)))
        assert box[2] > 0, f"{selector} cannot be seen"
        for kind in ("mousePressed", "mouseReleased"):
            self._tell("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def type(self, selector: str, text: str) -> None:
        """Click into a field, and type."""
        self.click(selector)
        self._tell("Input.insertText", text=text)

    def press(self, key: str) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self._tell("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    # What a user sees

    def text(self, selector: str) -> str:
        return str(self.value(f"document.querySelector({json.dumps(selector)}).innerText"))

    def shown(self, selector: str) -> bool:
        return bool(self.value(f"document.querySelector({json.dumps(selector)}).checkVisibility()"))

    def value(self, script: str) -> Any:
        """What a piece of JavaScript gives."""
        said = self._tell("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"never: {what}"
            time.sleep(0.1)

    def resize(self, wide: int, high: int) -> None:
        self._tell(
            "Emulation.setDeviceMetricsOverride", width=wide, height=high, deviceScaleFactor=1, mobile=wide < 600
        )

    def dark(self, is_dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._tell("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """A screenshot: of what is in the window, or of the whole page."""
        more: dict[str, Any] = {"captureBeyondViewport": True} if whole else {}
        if whole:
            size = self._tell("Page.getLayoutMetrics")["cssContentSize"]
            more["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        path.write_bytes(base64.b64decode(self._tell("Page.captureScreenshot", format="png", **more)["data"]))

    # The pipe: JSON, each message ended by a zero byte

    def _tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._number:
                assert "error" not in heard, f"{method}: {heard['error']}"
                result: dict[str, Any] = heard["result"]
                return result
            self._note(heard)

    def _hear(self, seconds: float = 30.0) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], seconds)
            assert ready, "the browser does not answer"
            data = os.read(self._in, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def _note(self, event: dict[str, Any]) -> None:
        """Keep what the console would show in red."""
        about = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(about["exceptionDetails"].get("exception", {}).get("description")))
        elif event.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.problems.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
