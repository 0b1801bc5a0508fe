"""The live page in a real browser: a model collapses before its eyes, a button resets it, and it recovers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch

import aetta
from aetta.adapters import Tent
from aetta.data.corruptions import corrupt
from aetta.data.digits import digits, digits_model
from aetta.serving import Engine, Settings
from tests.conftest import require_program
from tests.serving.browser import Browser
from tests.serving.makers import TOKEN, running, until


class Stream:
    """Batches of real digits; the model learns so fast that noise makes it collapse.

    address: Of the server.
    made: Behind it: each batch is digested before the next one is sent.
    """

    def __init__(self, address: str, made: Engine) -> None:
        unseen = digits("unseen")
        self._images = torch.stack([unseen[i][0] for i in range(320)]).float() / 255
        self._http = httpx.Client(base_url=address, timeout=20)
        self._made, self.sent = made, 0

    def send(self, *, noisy: bool) -> None:
        batch = self._images[self.sent * 32 % 320 :][:32]
        if noisy:
            batch = corrupt(batch, "gaussian_noise", 5, seed=self.sent)
        raw = batch.numpy().astype("<f4").tobytes()
        tensor = {"name": "images", "datatype": "FP32", "shape": list(batch.shape)}
        head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": len(raw)}}]}).encode()
        before = self._made.history.since(-1)
        length = {"Inference-Header-Content-Length": str(len(head))}
        assert self._http.post("/v2/models/digits/infer", content=head + raw, headers=length).status_code == 200
        self.sent += 1
        until(lambda: self._made.history.since(-1) != before)

    def until(self, page: Browser, wanted: str, *, noisy: bool, most: int = 60) -> None:
        """Go on until the page's estimate, in per cent, is what is wanted, such as '< 25'."""
        sign, limit = wanted.split()
        for _ in range(most):
            self.send(noisy=noisy)
            newest = f"Now: batch {self._made.history.since(-1)[-1]['step']} "
            page.until(lambda newest=newest: newest in _label(page), "the page shows the newest batch")  # type: ignore[misc]
            number = float(page.text("#now-estimate").removesuffix("%").strip().replace("–", "nan"))
            if number < int(limit) if sign == "<" else number > int(limit):
                return
        raise AssertionError(f"the estimate on the page was never {wanted}: it is {page.text('#now-estimate')}")


@pytest.fixture
def page() -> Iterator[Browser]:
    program = require_program("chromium", "apt-get install chromium")
    with Browser(program) as browser:
        yield browser


def test_a_collapse_is_seen_live_and_a_button_ends_it(page: Browser, tmp_path: Path) -> None:
    model = digits_model()
    monitor = aetta.monitor(model, adapter=Tent(model, learning_rate=0.3), recovery="none")
    settings = Settings(name="digits", shape=(3, 32, 32), state=tmp_path, token=TOKEN, every=5)
    made = Engine(monitor, settings)
    with running(made) as (host, port):
        page.open(f"http://{host}:{port}/")
        page.until(lambda: page.text("#status") == "live", "the page is live")
        stream = Stream(f"http://{host}:{port}", made)
        stream.until(page, "> 80", noisy=False)
        stream.until(page, "< 25", noisy=True)

        _press(page, "reset", sure="yes")
        page.until(lambda: "token" in page.text("#answer"), "without the token the button does nothing")
        assert not _decisions(made)
        page.type("#token", TOKEN)
        page.type("#reason", "collapsed on noise")
        _press(page, "reset", sure="no")
        assert page.text("#answer") == ""
        assert not _decisions(made)
        _press(page, "reset", sure="yes")
        page.until(lambda: page.text("#answer") == "Done: reset.", "with the token it resets the model")
        assert _decisions(made) == [("operator", "reset", "collapsed on noise")]
        page.until(lambda: "collapsed on noise" in page.text("#audit"), "the audit log says who and why")
        assert page.text("#now-repairs") == "1"
        stream.until(page, "> 80", noisy=False)

        page.value("for (let i = 0; i < 3; i++) document.querySelector('#freeze').click()")
        page.until(lambda: page.shown("#brake"), "the freeze button freezes")
        assert made.monitor.frozen
        page.click("#resume")
        page.until(lambda: not page.shown("#brake"), "the resume button resumes")
        assert [what for _, what, _ in _decisions(made)] == ["reset", "freeze", "resume"]
        _reads_without_a_mouse(page)
        _fits_a_phone(page)
    assert [each for each in page.problems if "401" not in each and "v1/events" not in each] == []


def _press(page: Browser, verb: str, *, sure: str) -> None:
    page.click(f"button[data-verb={verb}]")
    page.until(lambda: page.shown("#sure"), "it is asked whether one is sure")
    page.click(f"#sure button[value={sure}]")
    page.until(
        lambda: page.value("document.querySelector('#control').ariaBusy") == "false", "the order is given, or not"
    )


def _label(page: Browser) -> str:
    """What a screen reader is told of the chart."""
    return str(page.value("document.querySelector('#accuracy svg')?.getAttribute('aria-label')"))


def _decisions(made: Engine) -> list[tuple[str, str, str]]:
    return [(row["who"], row["what"], row["why"]) for row in made.audit.since(-1) if row["who"] == "operator"]


def _reads_without_a_mouse(page: Browser) -> None:
    page.value("document.activeElement.blur()")
    reached = set()
    for _ in range(24):
        page.press("Tab")
        here = "document.activeElement"
        reached.add(page.value(f"{here}.id || {here}.dataset.verb || {here}.tagName"))
    assert reached >= {"token", "reason", "reset", "freeze", "snapshot", "rollback"}
    page.value("document.querySelector('#accuracy svg').focus()")
    for _ in range(3):
        page.press("ArrowLeft")
    assert "aetta" in page.text("#accuracy .readout")


def _fits_a_phone(page: Browser) -> None:
    page.resize(390, 844)
    page.until(lambda: page.value("document.documentElement.scrollWidth") <= 390, "nothing sticks out on a phone")
