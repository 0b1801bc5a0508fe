"""The description of the routes is the routes, and a program that tries all of it finds nothing wrong."""

from __future__ import annotations

from pathlib import Path

from aetta.serving.app import PAGE, routes
from tests.conftest import require_program
from tests.serving.makers import TOKEN, client, engine, running, until
from tests.serving.surface import tried


def test_every_route_is_described_and_nothing_else(tmp_path: Path) -> None:
    made = engine(tmp_path)
    found = {(route.path, method.lower()) for route in routes(made) for method in (route.methods or set()) - {"HEAD"}}
    with client(made) as http:
        paths = http.get("/openapi.json").json()["paths"]
    assert {(path, method) for path, what in paths.items() for method in what} == {
        each for each in found if each[0] not in PAGE
    }


def test_what_needs_the_token_says_so(tmp_path: Path) -> None:
    with client(engine(tmp_path)) as http:
        paths = http.get("/openapi.json").json()["paths"]
        closed = {path for path, what in paths.items() for each in what.values() if each.get("security")}
        assert closed == {path for path, what in paths.items() if "post" in what and not path.endswith("infer")}
        assert {http.post(path).status_code for path in closed} == {401}


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    program = require_program("schemathesis", "pip install schemathesis")
    made = engine(tmp_path, every=5, digest="background")
    with running(made) as (host, port):
        done = tried(program, f"http://{host}:{port}", TOKEN, "--phases=fuzzing,stateful", "--max-examples=4")
        assert done.returncode == 0, done.stdout[-4000:]
        until(lambda: made.digester.waiting == 0)
