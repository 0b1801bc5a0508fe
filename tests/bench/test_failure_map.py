"""The failure map: scores by hand, and that its page shows what the committed rows say."""

import re
from pathlib import Path

import pytest

pytest.importorskip("benchmarks.failure_map", reason="benchmarks lie in the repository alone")
from aetta.bench.score import noise_floor
from aetta.data.published import CORRUPTIONS
from benchmarks import failure_map
from tests.bench.makers import shown_tables

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "failure-map.md"


@pytest.fixture(scope="module")
def panels():
    return failure_map.panels()


def test_a_point_by_hand():
    rows = [
        {"domain": "a", "true": 0.5, "aetta": [0.6, 0.4, 0.8]},
        {"domain": "b", "true": 0.7, "aetta": [0.4, 0, 0.5]},
    ]
    found = failure_map.point("64", rows, 64, {})
    assert found.accuracy == pytest.approx(60)
    assert found.floor == pytest.approx(50 * (noise_floor(0.5, 64) + noise_floor(0.7, 64)))
    scored = found.scores["aetta"]
    assert (scored.error, scored.bias, scored.inside) == (pytest.approx(20), pytest.approx(-10), 50)
    assert scored.deviation == pytest.approx(10 / 2**0.5)


@pytest.mark.parametrize("panel", failure_map.AXES)
def test_the_pages_tables_are_those_of_the_committed_rows(panel, panels):
    (shown,) = shown_tables(PAGE, f"failure-map-{panel}")
    assert shown == failure_map.table(panel, panels[panel])


def test_each_panel_has_what_it_should_and_the_picture_is_light(panels):
    assert {panel: [at.name for at in points] for panel, points in panels.items()} == {
        "batch-size": ["1", "4", "16", "64", "256", "512"],
        "label-skew": ["0.05", "0.1", "0.3", "1", "10", "shuffled"],
        "class-count": ["10", "100"],
        "severity": ["1", "2", "3", "4", "5"],
        "stream-length": ["4", "8", "16", "32", "64", "128"],
    }
    assert failure_map.ROWS.stat().st_size < 200_000
    assert failure_map.PICTURE.stat().st_size < 150_000


def test_the_benchmarks_corruptions_are_not_touched(panels):
    assert not set(failure_map.EXTRA) & set(CORRUPTIONS)
    assert set(re.findall(r'"domain":"(\w+)"', failure_map.ROWS.read_text())) == set(failure_map.EXTRA)


def test_it_can_be_drawn_again(panels, tmp_path):
    pytest.importorskip("matplotlib")
    failure_map.draw(panels, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 10_000
