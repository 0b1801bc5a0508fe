"""The flagship's experiments: which runs there are, that they end in time and go on later, and tables from rows."""

import queue
import tarfile
import time
from pathlib import Path

import pytest

pytest.importorskip("benchmarks.flagship", reason="benchmarks lie in the repository alone")
from benchmarks.flagship import __main__ as command
from benchmarks.flagship import cells, picture, pool, tables
from tests.bench.makers import shown_tables

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def test_the_test_has_every_method_setting_and_rule_once_and_the_longest_first_in_each_seed():
    wanted = cells.final(1024)
    assert len({cell.name for cell in wanted}) == len(wanted) == 3 * (6 * 2 * 3 + 6 * 3)
    assert [cell.seed for cell in wanted] == sorted(cell.seed for cell in wanted)
    first = [cell.seconds for cell in wanted if cell.seed == 0]
    assert first == sorted(first, reverse=True)
    assert not {kind for cell in cells.development() for kind, _ in cell.domains} & set(cells.CORRUPTIONS)


class Slow:
    """A worker whose tasks say how long they take, and notes them."""

    def __init__(self):
        self.did = []

    def seconds(self, task):
        return task

    def __call__(self, task):
        self.did.append(task)
        return str(task)


def test_what_would_not_end_in_time_is_left_and_what_would_is_done():
    tasks, done, worker = queue.Queue(), queue.Queue(), Slow()
    for task in (100, 0, 3000, 1, None):
        tasks.put(task)
    pool._work(lambda _settings: worker, None, tasks, done, time.time() + 50)
    assert worker.did == [0, 1]
    assert [bool(done.get()) for _ in range(4)] == [False, True, False, True]


def test_what_is_packed_is_there_for_the_next_call(tmp_path):
    rows, out, later = (tmp_path / name for name in ("rows", "out", "later"))
    for folder in (rows, out, later):
        folder.mkdir()
    (rows / "one.jsonl").write_text('{"cell": "one"}\n{"i": 0}\n')
    (rows / "one.done").touch()
    (rows / "two.jsonl").write_text('{"cell": "two"}\n')
    command._pack(rows, out, 1, ["one", "two"])
    with tarfile.open(out / command.ROWS) as archive:
        archive.extractall(later, filter="data")
    assert sorted(path.name for path in later.iterdir()) == ["one.done", "one.jsonl", "two.jsonl"]
    assert [record.head["cell"] for record in tables.read(out / command.ROWS)] == ["one"], "two is not complete"


def made(method="tent", seed=0, rule="none", **columns):
    """A run of two domains, by column."""
    stream = f"tiny100-resnet18-shuffled-64-2x2-s{seed}"
    kind, end = ("watch", "") if rule == "none" else ("repair", f"-{rule}")
    head = {"cell": f"{kind}-{stream}-{method}{end}", "data": "tiny100", "order": "shuffled", "fully": False}
    head |= {"seed": seed, "rule": rule, "method": method}
    rows = [{"i": i, "domain": i // 2} | {k: v[i] for k, v in columns.items()} for i in range(4)]
    return head["cell"], [head, *rows]


def test_tables_by_hand(tmp_path):
    truth = [0.5, 0.7, 0.2, 0.2]
    runs = dict(
        [
            made(accuracy=truth, flagship=[[0.5, 0.4, 0.6], [0.6, 0.5, 0.65], [0.3, 0.2, 0.4], [0.3, 0.25, 0.4]]),
            made(seed=1, accuracy=truth, flagship=[[value, 0.0, 1.0] for value in truth]),
            made(rule="flagship", accuracy=[value + 0.1 for value in truth]),
        ]
    )
    tables.pack(tmp_path / "rows.tar.xz", runs)
    told = tables.tables(tables.read(tmp_path / "rows.tar.xz"))
    assert "| floor | 5.0 | 5.0 |" in told
    assert "| AnchorScore | 3.75 (+1.2) | 3.75 |" in told, "the mean of 7.5 and 0, biases 2.5 and 0"
    assert "| its 90 % covers, % | 75 | 75 |" in told, "the mean of 2 in 4 and all"
    assert "| AnchorGuard | 50.0 (+10.0) | +10.0 |" in told
    thin = {record.head["cell"]: tables.thinned(record) for record in tables.read(tmp_path / "rows.tar.xz")}
    tables.pack(tmp_path / "thin.tar.xz", thin)
    assert tables.tables(tables.read(tmp_path / "thin.tar.xz")) == told
    before = (tmp_path / "rows.tar.xz").read_bytes()
    tables.pack(tmp_path / "rows.tar.xz", dict(reversed(runs.items())))
    assert (tmp_path / "rows.tar.xz").read_bytes() == before


def test_each_setting_has_its_table():
    cell, lines = made(accuracy=[0.5] * 4)
    fully = dict(lines[0], cell=cell.replace("-tent", "-fully-tent"), fully=True)
    records = [tables.Record(lines[0], lines[1:]), tables.Record(fully, lines[1:])]
    told = tables.tables(records)
    assert [line for line in told.splitlines() if line.startswith("tiny100")] == [
        "tiny100, shuffled, continual: error (bias) in points",
        "tiny100, shuffled, fully: error (bias) in points",
    ]
    assert told.count("|  | tent | mean |") == 2


@pytest.mark.parametrize(("name", "bytes_"), [("flagship-dev", 300_000), ("flagship-test", 700_000)])
def test_the_documents_tables_are_those_of_the_committed_rows(name, bytes_):
    (shown,) = shown_tables(ROOT / "docs" / "estimators.md", name)
    rows = RESULTS / f"{name}.tar.xz"
    assert shown == tables.tables(tables.read(rows)) + "\n"
    assert rows.stat().st_size < bytes_


def test_the_picture_of_the_recoveries_is_drawn_from_the_committed_rows(tmp_path):
    pytest.importorskip("matplotlib", reason="it is an extra")
    records = tables.read(RESULTS / "flagship-test.tar.xz")
    found = picture.by_corruption(records)
    assert len(found) == 6 * 4
    assert all(values.shape == (15,) for values in found.values())
    assert found["eata", "flagship"].mean() > found["eata", "none"].mean() + 20
    picture.draw(records, tmp_path / "recovery.png")
    assert (tmp_path / "recovery.png").stat().st_size > 10_000


def test_of_a_run_in_several_files_the_first_counts(tmp_path, capsys, monkeypatch):
    for name, value in (("one", 0.5), ("other", 0.9)):
        tables.pack(tmp_path / name, dict([made(accuracy=[value] * 4), made(seed=1, method=name, accuracy=[0.2] * 4)]))
    monkeypatch.setattr("sys.argv", ["tables", str(tmp_path / "one"), str(tmp_path / "other")])
    monkeypatch.setattr(tables, "ORDER", ("tent", "one", "other"))
    tables.main()
    assert "| accuracy, % | 50.0 | 20.0 | 20.0 | 30.0 |" in capsys.readouterr().out
