"""`aetta watch`: the rows it finds, and what it makes of them."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from aetta import BadInput, Jsonl, monitor
from aetta.cli import app
from aetta.cli.rows import FileRows, ServerRows, rows_of
from aetta.cli.view import chart, line, view
from aetta.testing import tiny_images, tiny_model


def row(step: int, accuracy: float | None = 0.8, /, **more: Any) -> dict[str, Any]:
    low, high = (None, None) if accuracy is None else (max(0, accuracy - 0.1), min(1, accuracy + 0.1))
    return {
        "time": 1000.0 + step,
        "step": step,
        "images": 16,
        "estimates": {"aetta": {"accuracy": accuracy, "low": low, "high": high}},
        "repair": None,
        **more,
    }


def drawn(rows: list[dict[str, Any]]) -> str:
    screen = Console(file=io.StringIO(), width=100)
    screen.print(view(rows, title="run", width=100))
    return screen.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_file_that_is_being_written_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps(row(0)) + "\n" + json.dumps(row(1))[:20])
    rows = FileRows(path)
    assert [each["step"] for each in rows.new()] == [0]
    with path.open("a") as file:
        file.write(json.dumps(row(1))[20:] + "\n")
    assert [each["step"] for each in rows.new()] == [1]
    assert rows.new() == []


def test_another_run_in_its_place_is_read_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps(row(7)) + "\n" + json.dumps(row(8)) + "\n")
    rows = FileRows(path)
    rows.new()
    path.write_text(json.dumps(row(0)) + "\n")
    assert [each["step"] for each in rows.new()] == [0]


def test_lines_that_are_no_rows_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('not json\n[1]\n{"step": "x"}\n' + json.dumps(row(3)) + "\n")
    assert [each["step"] for each in FileRows(path).new()] == [3]


def test_of_a_long_file_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aetta.cli.rows.TAIL", 500)
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(row(i)) + "\n" for i in range(100)))
    found = [each["step"] for each in FileRows(path).new()]
    assert 0 < len(found) < 5
    assert found[-1] == 99


def test_the_newest_file_of_a_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "run.jsonl").write_text(json.dumps(row(5)) + "\n")
    assert rows_of(str(tmp_path)).new()[0]["step"] == 5


@pytest.mark.parametrize("target", ["nowhere.jsonl", "http://127.0.0.1:9"])
def test_a_target_that_is_not_there_is_said(target: str) -> None:
    with pytest.raises(BadInput, match=r"nowhere|127\.0\.0\.1"):
        rows_of(target).new()


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        since = int(self.path.rpartition("=")[2])
        body = json.dumps({"rows": [row(i - 3, row=i) for i in range(5, 8) if i > since]}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_server_is_asked_for_what_is_new(address: str) -> None:
    rows = ServerRows(address)
    assert [each["step"] for each in rows.new()] == [2, 3, 4]
    assert rows.new() == []  # rows are numbered for ever; steps go back where a resume lost some


def test_of_a_servers_folder_the_history_is_taken(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text(json.dumps(row(4)) + "\n")
    (tmp_path / "audit.jsonl").write_text('{"row": 0, "step": 4, "who": "server"}\n')
    assert [each["step"] for each in rows_of(str(tmp_path)).new()] == [4]


def test_a_file_that_is_gone_for_a_moment_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps(row(0)) + "\n")
    rows = FileRows(path)
    path.unlink()
    with pytest.raises(BadInput, match="cannot be read"):
        rows.new()


def test_the_chart_puts_points_where_the_accuracy_is() -> None:
    text = chart([row(i, i / 9) for i in range(10)], "aetta", width=20, height=10).plain.splitlines()[1:11]
    places = [{x for x, c in enumerate(each) if c == "●"} for each in text]
    assert all(len(each) == 1 for each in places[:9])
    assert sorted(places[0]) > sorted(places[8])


def test_the_picture_says_the_numbers_of_now() -> None:
    rows = [row(i, domain="fog", drift=0.5, seconds={"predict": 0.01, "estimate": 0.02}) for i in range(9)]
    rows.append(row(9, 0.4, observed=0.45, domain="snow", frozen=True, repair={"action": "reset", "reason": "too low"}))
    text = drawn(rows)
    for said in (
        "40.0 % (30 to 50)",
        "45.0 %",
        "snow (2 lately: fog, snow)",
        "16.0 images, 1.00 batches a second",
        "estimating 20.0 ms a batch, 2.0 times predicting",
        "1 repair in the last 10",
        "step 9  reset: too low",
        "frozen",
    ):
        assert said in text, said


@pytest.mark.parametrize("rows", [[], [row(0, None)], [{"step": 0, "images": 1, "estimates": {}}]])
def test_little_to_show_is_no_error(rows: list[dict[str, Any]]) -> None:
    assert "run" in drawn(rows)


def test_a_row_is_a_line_for_a_pipe() -> None:
    said = line(row(3, 0.5, accuracy=0.6, domain="fog", drift=0.1, repair={"action": "reset", "reason": "low"}))
    assert said == "step 3  aetta 50.0 % (40 to 60)  true 60.0 %  domain fog  drift 0.1000  images 16  reset: low"


def test_the_command_shows_what_a_run_recorded(tmp_path: Path) -> None:
    watched = monitor(tiny_model(), recorders=[Jsonl(tmp_path / "run.jsonl")])
    for seed in range(3):
        watched(tiny_images(seed))
    result = CliRunner().invoke(app, ["watch", str(tmp_path / "run.jsonl"), "--once"])
    assert result.exit_code == 0
    assert "step 2" in result.stdout
    assert "times predicting" in result.stdout
