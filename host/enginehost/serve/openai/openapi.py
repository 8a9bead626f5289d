"""The routes for clients of OpenAI's API in the OpenAPI document (``?routes=all``)."""

from __future__ import annotations

from typing import Any

from enginehost.serve.catalog_openapi import OPEN

_TEXT, _NUMBER, _OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "object"}
_NOTHING: dict[str, Any] = {"type": ["string", "null"]}


def _made(members: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": required}


_ERROR = _made(
    {
        "error": _made(
            {"message": _TEXT, "type": _TEXT, "param": _NOTHING, "code": _TEXT}, ["message", "type"]
        )
    },
    ["error"],
)
_MODEL = _made(
    {"id": _TEXT, "object": {"const": "model"}, "created": _NUMBER, "owned_by": _TEXT}, ["id", "object"]
)
_MODELS = _made({"object": {"const": "list"}, "data": {"type": "array", "items": _MODEL}}, ["object", "data"])
_ANSWER = _made(
    {
        "id": _TEXT,
        "object": {"const": "chat.completion"},
        "created": _NUMBER,
        "model": _TEXT,
        "choices": {"type": "array", "items": _OBJECT},
        "usage": _OBJECT,
    },
    ["id", "choices"],
)
_ASKED = _made(
    {
        "model": _TEXT,
        "messages": {"type": "array", "items": _OBJECT, "minItems": 1},
        "stream": {"type": "boolean"},
        "tools": {"type": "array", "items": _OBJECT},
        "response_format": _OBJECT,
        "temperature": {"type": "number"},
        "max_completion_tokens": _NUMBER,
        "stop": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    },
    ["model", "messages"],
)


def openai_paths() -> dict[str, Any]:
    """The paths."""
    named = {"name": "id", "in": "path", "required": True, "schema": _TEXT}
    events = {"text/event-stream": {"schema": _TEXT}}
    body = {"required": True, "content": {"application/json": {"schema": _ASKED}}}
    return {
        "/v1/models": {
            "get": _operation("models", "The agents and model engines.", _MODELS) | {"security": OPEN}
        },
        "/v1/models/{id}": {
            "get": _operation("model", "An agent or a model engine.", _MODEL)
            | {"parameters": [named], "security": OPEN}
        },
        "/v1/chat/completions": {
            "post": _operation("chat", "Ask an agent or a model engine.", _ANSWER, events)
            | {"requestBody": body}
        },
    }


def _operation(
    name: str, summary: str, schema: dict[str, Any], more: dict[str, Any] | None = None
) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}} | (more or {})
    refused = {
        "application/json": {"schema": _ERROR},
        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
    }
    return {
        "operationId": f"openai.{name}",
        "summary": summary,
        "tags": ["openai"],
        "responses": {
            "200": {"description": summary, "content": content},
            "default": {"description": "It failed, or was refused.", "content": refused},
        },
    }
