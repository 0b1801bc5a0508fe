"""The deliberate breakages still name text and tests that are there; `python -m benchmarks.breakages` runs them."""

import pytest

breakages = pytest.importorskip("benchmarks.breakages", reason="benchmarks lie in the repository alone")
ROWS = [pytest.param(*row[1:], id=row[0]) for row in breakages.BREAKAGES]


@pytest.mark.parametrize(("file", "old", "new", "tests"), ROWS)
def test_a_breakage_breaks_something_and_names_who_should_notice(file, old, new, tests):
    assert old in (breakages.ROOT / "src" / "aetta" / file).read_text(encoding="utf-8")
    assert old != new
    assert all((breakages.ROOT / "tests" / test).exists() for test in tests.split())
