"""The live page in a real browser: a model collapses before its eyes, a button resets it, and it recovers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aetta.serving import Engine
from tests.conftest import require_program
from tests.serving.browser import Browser
from tests.serving.collapsing import Stream, collapsing
from tests.serving.makers import TOKEN, running


@pytest.fixture
def page() -> Iterator[Browser]:
    program = require_program("chromium", "apt-get install chromium")
    with Browser(program) as browser:
        yield browser


def test_a_collapse_is_seen_live_and_a_button_ends_it(page: Browser, tmp_path: Path) -> None:
    made = collapsing(tmp_path)
    with running(made) as (host, port):
        page.open(f"http://{host}:{port}/")
        page.until(lambda: page.text("#status") == "live", "the page is live")
        stream = Stream(f"http://{host}:{port}", made)
        _send(stream, made, page, noisy=False, wanted=lambda number: number > 80)
        _send(stream, made, page, noisy=True, wanted=lambda number: number < 25)

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
        _send(stream, made, page, noisy=False, wanted=lambda number: number > 80)

        page.value("for (let i = 0; i < 3; i++) document.querySelector('#freeze').click()")
        page.until(lambda: page.shown("#brake"), "the freeze button freezes")
        assert made.monitor.frozen
        page.click("#resume")
        page.until(lambda: not page.shown("#brake"), "the resume button resumes")
        assert [what for _, what, _ in _decisions(made)] == ["reset", "freeze", "resume"]
        _reads_without_a_mouse(page)
        _fits_a_phone(page)
    assert [each for each in page.problems if "401" not in each and "v1/events" not in each] == []


def _send(stream: Stream, made: Engine, page: Browser, *, noisy: bool, wanted: Callable[[float], bool]) -> None:
    """Send batches until the number on the page, in per cent, is what is wanted; each batch is seen there."""
    for _ in range(60):
        stream.send(noisy=noisy)
        newest = f"Now: batch {made.history.since(-1, 1)[0]['step']} "
        page.until(lambda newest=newest: newest in _label(page), "the page shows the newest batch")  # type: ignore[misc]
        if wanted(float(page.text("#now-estimate").removesuffix("%"))):
            return
    raise AssertionError(f"the estimate on the page stayed at {page.text('#now-estimate')}")


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
