"""The deliberate breakages still name text and tests that are there; `python -m benchmarks.breakages` runs them."""

import pytest

from benchmarks.breakages import BREAKAGES, ROOT


@pytest.mark.parametrize(("file", "old", "new", "tests"), [row[1:] for row in BREAKAGES], ids=[r[0] for r in BREAKAGES])
def test_a_breakage_breaks_something_and_names_who_should_notice(file, old, new, tests):
    assert old in (ROOT / "src" / "aetta" / file).read_text(encoding="utf-8")
    assert old != new
    assert all((ROOT / "tests" / test).exists() for test in tests.split())
