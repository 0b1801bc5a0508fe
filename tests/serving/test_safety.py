"""Safe by default: tokens, limits, errors that leak nothing, and bytes that are not what they should be."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from starlette.testclient import TestClient

import aetta.serving.app as app_module
from aetta import BadOption
from aetta.serving import Limits
from aetta.serving.app import routes
from aetta.serving.protocol import parse
from aetta.serving.refusal import Refused
from aetta.testing import tiny_images
from tests.serving.makers import BEARER, INFER, SHAPE, TOKEN, ask, client, engine, question, settings, until, weights

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")
WRONG: list[dict[str, str]] = [
    {},
    {"Authorization": "Bearer wrong"},
    {"Authorization": "Bearer"},
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": TOKEN},
    {"Authorization": f"Bearer {TOKEN}x"},
    {"Authorization": "Bearer ä"},
]


def _everything(made: Any) -> tuple[Any, ...]:
    """All that a client could have changed."""
    return (
        weights(made),
        made.feedback.observed(),
        made.feedback.errors(),
        made.monitor.frozen,
        len(made.audit.since(-1)),
        sorted(path.name for path in made.settings.state.iterdir() if "checkpoint" in path.name),
    )


@pytest.mark.parametrize("headers", WRONG, ids=lambda headers: str(headers.get("Authorization")))
def test_without_the_token_no_route_changes_anything(headers: dict[str, str], tmp_path: Path) -> None:
    made = engine(tmp_path, learn_from="token")
    bodies = [
        b"",
        json.dumps(question(tiny_images(), id="mine")).encode(),
        json.dumps({"reason": "x", "snapshot": "checkpoint-00000001.safetensors"}).encode(),
        json.dumps({"id": "mine", "labels": [0] * 12}).encode(),
    ]
    raw = {name: value.encode() for name, value in headers.items()}
    with client(made) as http:
        http.post(INFER, headers=BEARER, json=question(tiny_images(), id="mine"))
        until(lambda: made.monitor.index == 1 and len(made.snapshots()) == 1)
        before = _everything(made)
        tried = 0
        for route in routes(made):
            if route.path == "/v1/events":
                continue  # an endless answer; it takes no input
            for method in METHODS:
                for body in bodies:
                    answer = http.request(method, route.path, headers=raw, content=body)
                    assert answer.status_code < 500, (method, route.path, answer.text)
                    tried += 1
        until(lambda: made.digester.waiting == 0)
        after = _everything(made)
    answered = {"mine"} & {name for name, _ in made.feedback.state_dict()["predicted"]}
    assert answered  # inference was answered all the same
    assert tried >= 7 * 4 * 20
    assert after == before


def test_control_and_feedback_are_off_without_a_token(tmp_path: Path) -> None:
    made = engine(tmp_path, token=None)
    with client(made) as http:
        ask(http, id="mine")
        for verb in ("reset", "rollback", "freeze", "resume", "feedback"):
            for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer None"}):
                assert http.post(f"/v1/{verb}", headers=headers, json={}).status_code == 403
    assert made.feedback.state_dict()["predicted"] == []


def test_requests_without_the_token_are_answered_and_not_learned_from(tmp_path: Path) -> None:
    made = engine(tmp_path, learn_from="token")
    with client(made) as http:
        assert ask(http)["parameters"]["learns"] is False
        trusted = http.post(INFER, headers=BEARER, json=question(tiny_images())).json()
        assert trusted["parameters"]["learns"] is True
        until(lambda: made.monitor.index == 1)


@pytest.mark.parametrize(
    "options",
    [{"token": "short"}, {"token": None, "learn_from": "token"}, {"every": 0}, {"digest": "sometimes"}],
)
def test_settings_that_are_not_safe_or_make_no_sense_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadOption):
        settings(tmp_path, **options)


def test_the_token_is_shown_nowhere(tmp_path: Path) -> None:
    assert TOKEN not in repr(settings(tmp_path))


def test_a_host_we_do_not_go_by_is_refused(tmp_path: Path) -> None:
    with client(engine(tmp_path)) as http:
        for host in ("evil.example", "localhost.evil.example", "", "localhost:80@evil.example"):
            assert http.get("/v1/estimate", headers={"Host": host}).status_code == 421, host
        for host in ("localhost", "127.0.0.1:8080", "LOCALHOST:1", "[::1]:8080", "[::1]"):
            assert http.get("/v1/estimate", headers={"Host": host}).status_code == 200, host


def test_a_page_elsewhere_cannot_teach_through_its_readers_browser(tmp_path: Path) -> None:
    made = engine(tmp_path)
    with client(made) as http:
        for origin in ("https://evil.example", "null", "http://localhost:3000", "http://localhost.evil.example"):
            answer = http.post(INFER, headers={"Origin": origin}, json=question(tiny_images()))
            assert answer.status_code == 403, origin
        assert made.monitor.index == 0
        assert http.post(INFER, headers={"Origin": "http://localhost"}, json=question(tiny_images())).status_code == 200


def test_another_method_is_refused_like_anything_else(tmp_path: Path) -> None:
    with client(engine(tmp_path)) as http:
        answer = http.put("/v1/reset", headers=BEARER)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
        assert answer.json() == {"error": "POST only"}
        assert http.head("/v1/estimate").status_code == 200


def test_browsers_are_told_to_keep_to_this_page(tmp_path: Path) -> None:
    with client(engine(tmp_path)) as http:
        for path in ("/", "/v1/estimate", "/nowhere"):
            headers = http.get(path, headers={"Origin": "https://evil.example"}).headers
            assert headers["Content-Security-Policy"].startswith("default-src 'none'")
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert "access-control-allow-origin" not in headers


def _status(http: TestClient, body: Any, **headers: str) -> int:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post(INFER, content=content, headers=headers).status_code


def test_requests_that_are_too_large_are_refused(tmp_path: Path) -> None:
    limits = Limits(body=50_000, images=4)
    with client(engine(tmp_path, limits=limits)) as http:
        assert _status(http, b"x" * 50_001) == 413
        assert _status(http, question(tiny_images()[:5])) == 413
        chunks = http.post(INFER, content=(b"x" * 10_000 for _ in range(6)))  # no length is said
        assert chunks.status_code == 413
        assert chunks.headers["Connection"] == "close"
        assert _status(http, question(tiny_images()[:2])) == 200


def test_a_queue_that_is_full_says_when_to_come_back(tmp_path: Path) -> None:
    made = engine(tmp_path, limits=Limits(queue=12), batch=12)
    held = asyncio.Event()
    answer = made.batcher._answer

    async def slow(group: Any) -> None:
        await asyncio.wait_for(held.wait(), 20)
        await answer(group)

    made.batcher._answer = slow  # type: ignore[method-assign]
    with client(made) as http, ThreadPoolExecutor(2) as pool:
        first = [pool.submit(http.post, INFER, json=question(tiny_images(i))) for i in range(2)]
        until(lambda: made.batcher.waiting == 12)
        refused = http.post(INFER, json=question(tiny_images()))
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1
        http.portal.call(held.set)  # type: ignore[union-attr]
        assert [each.result().status_code for each in first] == [200, 200]


def test_an_answer_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    made = engine(tmp_path, limits=Limits(answer=0.05))
    made.served.predict = lambda images: (_ for _ in ()).throw(AssertionError)  # type: ignore[method-assign,assignment]

    async def never(group: Any) -> None:
        await asyncio.sleep(0.2)

    made.batcher._answer = never  # type: ignore[method-assign]
    with client(made) as http:
        answer = http.post(INFER, json=question(tiny_images()))
        assert answer.status_code == 503
        assert "Retry-After" in answer.headers


def test_an_error_of_ours_leaks_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = engine(tmp_path)
    made.served.predict = lambda images: 1 / 0  # type: ignore[method-assign,assignment]
    with client(made) as http:
        answer = http.post(INFER, json=question(tiny_images()))
    assert answer.status_code == 500
    number = answer.json()["error"].rpartition(" ")[2]
    assert "division" not in answer.text
    assert number in caplog.text
    assert "division" in caplog.text


def test_the_log_has_no_payload(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with client(engine(tmp_path)) as http:
        ask(http, id="a-secret-id")
        http.get("/v1/history?since=12345678")
        http.get("/a-secret-path")
        http.post("/v1/reset", headers=BEARER, json={"reason": "a-secret-reason"})
    ours = [record for record in caplog.records if record.name.startswith("aetta")]
    lines = [record.fields for record in ours if hasattr(record, "fields")]
    assert [line["route"] for line in lines] == [INFER, "/v1/history", "none", "/v1/reset"]
    assert set(lines[0]) == {"route", "method", "status", "bytes", "seconds"}
    for secret in ("a-secret", TOKEN, "12345678"):
        assert secret not in str(lines) + "".join(record.getMessage() for record in ours)


def test_page_files_come_from_a_table(tmp_path: Path) -> None:
    with client(engine(tmp_path)) as http:
        for path in ("/../pyproject.toml", "/%2e%2e/pyproject.toml", "/page/index.html"):
            assert http.get(path).status_code == 404, path
        for path in app_module.PAGE:
            assert http.get(path).status_code == 200, path


GOOD = question(tiny_images()[:1])
TENSOR = GOOD["inputs"][0]


def _with(**changes: Any) -> dict[str, Any]:
    return {"inputs": [{**TENSOR, **changes}]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"inputs": NaN}',
        {"inputs": []},
        {"inputs": [TENSOR, TENSOR]},
        {"inputs": [5]},
        {"inputs": None},
        _with(name="x"),
        _with(datatype="BYTES"),
        _with(datatype=["FP32"]),
        _with(shape=[1, 3, 16, 17]),
        _with(shape=[0, 3, 16, 16]),
        _with(shape=[-1, 3, 16, 16]),
        _with(shape=[True, 3, 16, 16]),
        _with(shape=[1.0, 3, 16, 16]),
        _with(shape=[10**30, 3, 16, 16]),
        _with(shape="1"),
        _with(data=[]),
        _with(data=["1"] * 768),
        _with(data=[None] * 768),
        _with(data=[True] * 768),
        _with(data=[10**400] * 768),
        _with(data=[1e30] * 768),
        _with(data=[-1.0] * 768),
        _with(data=[[0.5] * 767, 0.5]),
        _with(data={"0": 1}),
        _with(parameters=[]),
        _with(parameters={"binary_data_size": 5}),
        _with(parameters={"binary_data_size": "3072"}),
        _with(parameters={"binary_data_size": -1}),
        {**GOOD, "id": 5},
        {**GOOD, "id": "x" * 129},
        {**GOOD, "id": "a\nb"},
        {**GOOD, "outputs": []},
        {**GOOD, "outputs": [{"name": "secrets"}]},
        {**GOOD, "outputs": [{"name": ["logits"]}]},
        {**GOOD, "outputs": [{"name": "logits"}, {"name": "logits"}]},
        {**GOOD, "outputs": "logits"},
        {**GOOD, "parameters": 5},
    ],
    ids=lambda body: str(body)[:40],
)
def test_what_is_no_request_is_refused_with_a_reason(body: Any, server: tuple[Any, TestClient]) -> None:
    made, http = server
    before = weights(made)
    answer = http.post(INFER, content=body if isinstance(body, bytes) else json.dumps(body).encode())
    assert answer.status_code in (400, 413)
    assert 0 < len(answer.json()["error"]) < 200
    assert weights(made) == before


@pytest.mark.parametrize("length", ["-1", "abc", "99999999", "1e3", "0", "٣"])
def test_a_wrong_length_of_the_json_is_refused(length: str, server: tuple[Any, TestClient]) -> None:
    _, http = server
    headers = {"Inference-Header-Content-Length": length.encode("utf-8")}
    assert http.post(INFER, content=json.dumps(GOOD).encode(), headers=headers).status_code == 400


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = engine(tmp_path_factory.mktemp("state"))
    with client(made) as http:
        yield made, http


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["name", "datatype", "shape", "data", "parameters"])


@effort(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes=st.dictionaries(KEYS, JSON, min_size=1, max_size=3), more=st.dictionaries(st.text(max_size=8), JSON))
def test_any_malformed_tensor_is_a_refusal_and_nothing_else(changes: dict[str, Any], more: dict[str, Any]) -> None:
    body = json.dumps({"inputs": [{**TENSOR, **changes}], **more}).encode()
    with contextlib.suppress(Refused):  # anything else would be an error of ours
        assert parse(body, None, settings(Path("unused"))).images.shape[1:] == SHAPE


@effort(max_examples=150, deadline=None)
@given(body=st.binary(max_size=200), length=st.none() | st.text(max_size=5) | st.integers(-5, 300).map(str))
def test_any_bytes_are_a_refusal_and_nothing_else(body: bytes, length: str | None) -> None:
    with pytest.raises(Refused):
        parse(body, length, settings(Path("unused")))
