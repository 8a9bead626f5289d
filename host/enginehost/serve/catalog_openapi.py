"""The routes beside those of functions, sessions and agents in the OpenAPI document (``?routes=all``)."""

from __future__ import annotations

from typing import Any

_TEXT, _NUMBER, _OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "object"}
_TEXTS, _OBJECTS = {"type": "array", "items": _TEXT}, {"type": "array", "items": _OBJECT}
_STATES = {"enum": ["ready", "loading", "draining"]}
_PAGE = {"type": "integer", "minimum": 1, "maximum": 1000}
OPEN: list[dict[str, list[str]]] = [{}, {"bearer": []}]
"""Who shows no token gets an answer too: what anonymous callers may see."""


def catalog_paths() -> dict[str, Any]:
    """The paths of lists, descriptions, SEMOSS's way, and operation."""
    tags = _query("tags", _TEXT, "Those that have one of these, separated by commas.")
    function = _made(
        {
            "name": _TEXT,
            "description": _TEXT,
            "tags": _TEXTS,
            "streaming": {"type": "boolean"},
            "state": _TEXT,
        }
    )
    listed = _made(
        {"functions": {"type": "array", "items": function}, "total": _NUMBER, "next_cursor": _TEXT},
        ["functions", "total"],
    )
    tools = [
        _query("format", _TEXT, "The kind of tools; default openai."),
        tags,
        _query("query", _TEXT, "Those that fit it and may be called, the best first."),
        _query("most", _PAGE, "No more than these."),
    ]
    page = [
        tags,
        _query("q", _TEXT, "Text in name or description."),
        _query("limit", _PAGE, "At most so many."),
    ]
    chosen = _query("function", _TEXT, "Which one, of an engine with several.")
    engines = _made({"engines": _OBJECTS, "problems": {"type": ["array", "null"]}}, ["engines", "problems"])
    network = _made({"time": _TEXT, "host": _TEXT, "nodes": _OBJECTS, "edges": _OBJECTS}, ["nodes", "edges"])
    status = _made({"status": _STATES}, ["status"])
    return {
        "/v1/functions": _get(
            "list", "The functions.", listed, [*page, _query("cursor", _TEXT, "A next_cursor.")]
        ),
        "/v1/functions/{name}": _get(
            "describe", "Everything about a function, or its spec.", _OBJECT, [_path("name"), tools[0]]
        ),
        "/v1/tools": _get("tools", "The functions as tools.", _OBJECTS, tools),
        "/v1/engines": _get("engines", "The engines with their states.", engines),
        "/v1/network": _get("network", "Who there is and who called whom.", network),
        "/api/function-{engine_id}/definition": _get(
            "definition", "SEMOSS's definition of a function.", _OBJECT, [_path("engine_id"), chosen]
        ),
        "/api/function-{engine_id}/execute": _execute([_path("engine_id"), chosen]),
        "/openapi.json": _get(
            "openapi",
            "This document.",
            _OBJECT,
            [tags, _query("routes", {"enum": ["all"]}, "With the routes that call nothing.")],
        ),
        "/healthz": _get("health", "The process answers.", _made({"status": {"const": "ok"}}, ["status"])),
        "/readyz": _ready(status),
        "/metrics": _metrics(),
    }


def _get(
    name: str, summary: str, answer: dict[str, Any], parameters: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"host.{name}",
        "summary": summary,
        "tags": ["host"],
        "security": OPEN,
        "responses": {
            "200": {"description": summary, "content": {"application/json": {"schema": answer}}},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    return {"get": operation | ({"parameters": parameters} if parameters else {})}


def _execute(parameters: list[dict[str, Any]]) -> dict[str, Any]:
    operation = _get("execute", "SEMOSS's way to call: the plain result.", {}, parameters)["get"]
    operation["responses"]["200"]["content"]["text/event-stream"] = {"schema": _TEXT}
    return {"post": operation | {"requestBody": {"content": {"application/json": {"schema": _OBJECT}}}}}


def _ready(status: dict[str, Any]) -> dict[str, Any]:
    found = _get("ready", "Whether calls are welcome.", status)
    busy = {"description": "Not now.", "content": {"application/json": {"schema": status}}}
    found["get"]["responses"]["503"] = busy
    return found


def _metrics() -> dict[str, Any]:
    found = _get("metrics", "Prometheus metrics.", {})
    found["get"]["responses"]["200"]["content"] = {"text/plain": {"schema": _TEXT}}
    return found


def _query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": description}


def _path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}


def _made(members: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": members} | ({"required": required} if required else {})
