"""The routes of sessions in the OpenAPI document."""

from __future__ import annotations

from typing import Any

_TEXT, _NUMBER, _OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "object"}
_ID = {"name": "id", "in": "path", "required": True, "schema": _TEXT, "description": "The session's id."}
_CALL = _ID | {"name": "call", "description": "The id of the call, or of the question."}
_LIMIT = {
    "name": "limit",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "maximum": 1000},
    "description": "How many at most; default 100.",
}
_SEQUENCE = {"type": "integer", "minimum": 0, "description": "The sequence of a message."}
_POSITION = {"type": "string", "description": "The id of an event."}
_SOME = {"type": "string", "minLength": 1}


def session_schemas() -> dict[str, Any]:
    """The schemas that the paths refer to."""
    message = {
        "id": _TEXT,
        "sequence": _NUMBER,
        "role": {"enum": ["system", "user", "assistant", "tool"]},
        "type": _TEXT,
        "status": {"enum": ["open", "done", "failed", "cancelled"]},
        "content": _TEXT,
        "query": _OBJECT,
        "finish": _TEXT,
        "usage": _OBJECT,
        "created_at": {"type": "number"},
        "modified_at": {"type": "number"},
    }
    states = ["queued", "running", "paused", "done", "failed", "cancelled"]
    run = {"id": _TEXT, "session": _TEXT, "agent": _TEXT, "state": {"enum": states}, "error": _OBJECT}
    asked = dict.fromkeys(("id", "session", "call", "kind", "text", "tool"), _TEXT) | {"args": _OBJECT}
    session = {
        "id": _TEXT,
        "agent": _TEXT,
        "run": _maybe(_ref("Run")),
        "position": _TEXT,
        "approvals": {"type": "array", "items": _ref("Question")},
    }
    schemas = {"Message": message, "Run": run, "Question": asked, "Session": session}
    return {f"sessions.{name}": _made(members) for name, members in schemas.items()}


def session_paths() -> dict[str, Any]:
    """The paths of sessions."""
    start = {"agent": _SOME, "id": _TEXT, "system": _TEXT, "tools": {}}
    decision = {
        "decision": {"enum": ["approve", "reject", "edit", "answer"]},
        "reason": _TEXT,
        "args": _OBJECT,
        "text": _TEXT,
    }
    run, one = _made({"run": _maybe(_ref("Run"))}), "/v1/sessions/{id}"
    taken_up = {"description": "Yours, that was there.", "content": _json(_ref("Session"))}
    paths: dict[str, Any] = {
        "/v1/sessions": {
            "get": _operation(
                "list_sessions", "Your sessions.", [_LIMIT, _query("cursor")], _listed("sessions")
            ),
            "post": _operation(
                "start_session",
                "Start a session with an agent.",
                [],
                _ref("Session"),
                start,
                ["agent"],
                "201",
            ),
        },
        "/v1/sessions/import": {
            "post": {
                **_operation(
                    "import_session",
                    "A session from JSON lines.",
                    [_query("id")],
                    _made({"id": _TEXT}),
                    status="201",
                ),
                "requestBody": {"required": True, "content": {"application/x-ndjson": {"schema": _TEXT}}},
            }
        },
        one: {
            "get": _operation("get_session", "A session as it stands.", [_ID], _ref("Session")),
            "delete": _operation("delete_session", "Delete a session.", [_ID], None, status="204"),
        },
        f"{one}/messages": {
            "get": _operation(
                "list_messages",
                "Its messages.",
                [_ID, _query("after", _SEQUENCE), _query("before", _SEQUENCE), _LIMIT],
                _listed("messages"),
            ),
            "post": _operation(
                "write_message",
                "Say something: a turn starts.",
                [_ID],
                run,
                {"message": _said(), "agent": _TEXT},
                ["message"],
                "202",
            ),
        },
        f"{one}/events": {
            "get": _operation(
                "follow_session",
                "Its events as they come; Last-Event-ID goes on after any of them.",
                [_ID, _query("after", _POSITION), _query("until", {"enum": ["run-end"]})],
                _TEXT,
                media="text/event-stream",
            )
        },
        f"{one}/cancel": {"post": _operation("cancel_turn", "End its turn.", [_ID], run, {}, [], "202")},
        f"{one}/fork": {
            "post": _operation(
                "fork_session",
                "Go on from a message of it.",
                [_ID],
                _ref("Session"),
                {"at": {"type": "integer", "minimum": 1}},
                [],
                "201",
            )
        },
        f"{one}/approvals": {
            "get": _operation("list_questions", "What waits for a person.", [_ID], _listed("approvals"))
        },
        f"{one}/approvals/{{call}}": {
            "post": _operation(
                "decide", "Decide a question.", [_ID, _CALL], run, decision, ["decision"], "202"
            )
        },
        f"{one}/export": {
            "get": _operation(
                "export_session", "It as JSON lines.", [_ID], _TEXT, media="application/x-ndjson"
            )
        },
    }
    paths["/v1/sessions"]["post"]["responses"]["200"] = taken_up
    return paths


def _operation(
    name: str,
    summary: str,
    parameters: list[Any],
    answer: Any,
    body: dict[str, Any] | None = None,
    required: list[str] | None = None,
    status: str = "200",
    media: str = "application/json",
) -> dict[str, Any]:
    content = {"content": {media: {"schema": answer}}} if answer is not None else {}
    found: dict[str, Any] = {
        "operationId": f"sessions.{name}",
        "summary": summary,
        "tags": ["sessions"],
        "parameters": parameters,
        "responses": {
            status: {"description": summary, **content},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if body is not None:
        schema = {
            "type": "object",
            "properties": body,
            "required": required or [],
            "additionalProperties": False,
        }
        found["requestBody"] = {"required": bool(required), "content": _json(schema)}
    return found


def _query(name: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema or _TEXT}


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _maybe(schema: Any) -> dict[str, Any]:
    return {"oneOf": [schema, {"type": "null"}]}


def _said() -> dict[str, Any]:
    """What a user says: a text, a message, or several."""
    members = {
        "type": {"enum": ["text", "image", "file", "data"]},
        "role": {"const": "user"},
        "content": _TEXT,
        "query": _OBJECT,
    }
    one = {"anyOf": [_TEXT, _made(members) | {"additionalProperties": False}]}
    return {"anyOf": [*one["anyOf"], {"type": "array", "items": one, "minItems": 1}]}


def _made(members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": members}


def _listed(name: str) -> dict[str, Any]:
    item = {"messages": _ref("Message"), "sessions": _OBJECT, "approvals": _ref("Question")}[name]
    return _made(
        {
            name: {"type": "array", "items": item},
            "next_cursor": _TEXT,
            "next_after": _NUMBER,
            "next_before": _NUMBER,
        }
    )


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/sessions.{name}"}
