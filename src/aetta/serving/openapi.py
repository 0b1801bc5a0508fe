"""What the routes take and give, as OpenAPI 3.1: for those who write clients, and for programs that try every route."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aetta.serving.control import LONGEST_REASON, VERBS
from aetta.serving.protocol import INPUT, LENGTH_HEADER, OUTPUTS, TYPES
from aetta.serving.settings import Settings

__all__ = ["DIGITS", "openapi"]

Schema = dict[str, Any]
DIGITS = 15  # of the number of a row
JSON, BINARY = "application/json", "application/octet-stream"
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
OPTIONAL: Schema = {"type": ["number", "null"]}
REFUSALS = {
    400: "It makes no sense; the error says what.",
    401: "The token is missing or wrong.",
    403: "Control and feedback are off, or a page of another origin sent it.",
    404: "There is no such thing.",
    405: "Another method is meant.",
    408: "The body did not come in time.",
    409: "It does not fit what is there.",
    413: "It is too large.",
    421: "The server does not go by that name.",
    429: "Too much is waiting; Retry-After says when to come back.",
    500: "An error of the server; its number is in the log.",
    503: "Not now; Retry-After says when to come back.",
}
ALWAYS = (405, 421, 500)  # of any route
BODY = (400, 403, 408, 413, 429)  # of one that reads a body


def openapi(settings: Settings, version: str) -> Schema:
    """The description of a server.

    >>> from pathlib import Path
    >>> found = openapi(Settings(name="tiny", shape=(3, 8, 8), state=Path("unused")), "1")
    >>> sorted(found["paths"]["/v1/reset"]), found["paths"]["/v1/reset"]["post"]["security"]
    (['post'], [{'token': []}])
    """
    model = f"/v2/models/{settings.name}"
    return {
        "openapi": "3.1.0",
        "info": {"title": "aetta", "version": version, "description": "A model that adapts, watched and controlled."},
        "paths": {**_protocol(model, settings), **_watching(), **_changing(settings)},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _object(error=TEXT)},
        },
    }


def _protocol(model: str, settings: Settings) -> Schema:
    """The Open Inference Protocol."""
    live = _get("Whether the process answers", _object(live=FLAG))
    ready = _get("Whether it takes requests", _object(ready=FLAG), also={503: "It starts or stops."})
    described = _get("What the model takes and gives", _object(name=TEXT, inputs=_list({}), outputs=_list({})))
    infer = _post(
        "Predict; the batch is learned from, unless the settings say otherwise",
        {JSON: _query(settings), BINARY: TEXT},
        {JSON: _answer(), BINARY: TEXT},
        (503,),
    )
    infer["parameters"] = [
        {
            "name": LENGTH_HEADER,
            "in": "header",
            "description": "The length of the JSON, where binary tensors follow it.",
            "schema": {"type": "string", "pattern": "^[0-9]{1,11}$"},
        }
    ]
    at_model = {"": {"get": described}, "/ready": {"get": ready}, "/infer": {"post": infer}}
    return {
        "/v2": {"get": _get("The server", _object(name=TEXT, version=TEXT, extensions=_list(TEXT)))},
        "/v2/health/live": {"get": live},
        "/v2/health/ready": {"get": ready},
        **{f"{model}{version}{end}": what for version in ("", "/versions/1") for end, what in at_model.items()},
    }


def _watching() -> Schema:
    """What can be read without the token."""
    estimate = _object(digested=WHOLE, estimates=_map(_estimate()), frozen=FLAG, observed=_object(accuracy=OPTIONAL))
    row = _object(row=WHOLE, time=NUMBER, step=WHOLE, images=WHOLE, estimates=_map(_estimate()), frozen=FLAG)
    snapshot = _object(name=TEXT)
    return {
        "/metrics": {"get": _get("Every metric, for Prometheus", {"text/plain": TEXT})},
        "/openapi.json": {"get": _get("This description", _object(openapi=TEXT))},
        "/v1/estimate": {"get": _get("The newest estimates, and the observed accuracy where labels came", estimate)},
        "/v1/history": {"get": _since("One row a digested batch", row)},
        "/v1/audit": {"get": _since("Who did what when, and why", _entry())},
        "/v1/snapshots": {"get": _get("What can be rolled back to", _object(snapshots=_list(snapshot)))},
        "/v1/events": {
            "get": _get(
                "Rows and decisions as they happen, without end",
                {"text/event-stream": TEXT},
                also={503: "Too many listen."},
            )
        },
    }


def _changing(settings: Settings) -> Schema:
    """What asks for the token."""
    labels = {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": settings.limits.images}
    feedback = _post(
        "Labels for an earlier request",
        {JSON: _object(id=TEXT, labels=labels)},
        {JSON: _object(right=WHOLE, images=WHOLE)},
        (401, 404, 409),
        status=202,
        token=True,
    )
    return {"/v1/feedback": {"post": feedback}, **{f"/v1/{verb}": {"post": _order(verb)} for verb in VERBS}}


def _order(verb: str) -> Schema:
    about = {
        "reset": "Send the model back to the source",
        "rollback": "Take everything from a snapshot",
        "freeze": "Stop learning, and go on estimating",
        "resume": "Learn again",
    }
    reason: Schema = {"reason": {"type": "string", "maxLength": LONGEST_REASON}}
    asked: Schema = {"type": "object", "properties": reason}
    if verb == "rollback":
        asked = {"type": "object", "properties": {**reason, "snapshot": TEXT}, "required": ["snapshot"]}
    done = _entry(durable=FLAG, frozen=FLAG)
    return _post(about[verb], {JSON: asked}, {JSON: done}, (401, 409), token=True, needed=verb == "rollback")


def _query(settings: Settings) -> Schema:
    shape = [
        {"type": "integer", "minimum": 1, "maximum": settings.limits.images},
        *({"const": n} for n in settings.shape),
    ]
    tensor = _object(
        name={"const": INPUT},
        datatype={"enum": list(TYPES)},
        shape={"type": "array", "prefixItems": shape, "minItems": len(shape), "maxItems": len(shape)},
        data={"type": "array", "description": "As many numbers as the shape says, flat or nested."},
    )
    output = _object(name={"enum": list(OUTPUTS)})
    query = _object(inputs={"type": "array", "items": tensor, "minItems": 1, "maxItems": 1})
    query["properties"]["id"] = {"type": "string", "maxLength": settings.limits.id_length}
    query["properties"]["outputs"] = {"type": "array", "items": output, "minItems": 1, "maxItems": len(OUTPUTS)}
    return query


def _answer() -> Schema:
    output = _object(name={"enum": list(OUTPUTS)}, datatype=TEXT, shape=_list(WHOLE))
    told = _object(digested=WHOLE, learns=FLAG)
    return _object(model_name=TEXT, model_version=TEXT, id=TEXT, parameters=told, outputs=_list(output))


def _estimate() -> Schema:
    return _object(accuracy=OPTIONAL, low=OPTIONAL, high=OPTIONAL)


def _entry(**more: Schema) -> Schema:
    return _object(row=WHOLE, time=NUMBER, step=WHOLE, who=TEXT, what=TEXT, why=TEXT, **more)


def _since(summary: str, row: Schema) -> Schema:
    since = {
        "name": "since",
        "in": "query",
        "description": "Rows after that one.",
        "schema": {**WHOLE, "minimum": -1, "maximum": 10**DIGITS - 1},
    }
    return {**_get(summary, _object(rows=_list(row)), also={400: REFUSALS[400]}), "parameters": [since]}


def _get(summary: str, gives: Schema, also: Mapping[int, str] | None = None) -> Schema:
    content = gives if all("/" in kind for kind in gives) else {JSON: gives}
    return {"summary": summary, "responses": _responses(200, content, {**_said(ALWAYS), **(also or {})})}


def _post(
    summary: str,
    takes: Mapping[str, Schema],
    gives: Mapping[str, Schema],
    also: tuple[int, ...],
    *,
    status: int = 200,
    token: bool = False,
    needed: bool = True,
) -> Schema:
    content = {kind: {"schema": schema} for kind, schema in takes.items()}
    return {
        "summary": summary,
        "requestBody": {"required": needed, "content": content},
        "responses": _responses(status, gives, _said((*ALWAYS, *BODY, *also))),
        **({"security": [{"token": []}]} if token else {}),
    }


def _responses(status: int, gives: Mapping[str, Schema], refusals: Mapping[int, str]) -> Schema:
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    good = {"description": "Done.", "content": {kind: {"schema": schema} for kind, schema in gives.items()}}
    return {str(status): good, **{str(code): {"description": why, "content": error} for code, why in refusals.items()}}


def _said(codes: tuple[int, ...]) -> dict[int, str]:
    return {code: REFUSALS[code] for code in sorted(codes)}


def _object(**properties: Schema) -> Schema:
    """An object that has these, and may have more."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _map(of: Schema) -> Schema:
    return {"type": "object", "additionalProperties": of}
