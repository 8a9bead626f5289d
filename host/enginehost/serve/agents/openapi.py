"""The routes of agents in the OpenAPI document."""

from __future__ import annotations

from typing import Any

_TEXT, _TEXTS, _TRUTH = (
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "boolean"},
)
_NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "schema": _TEXT,
    "description": "The agent's name, tool name, service.name, service or id.",
}


def agent_schemas() -> dict[str, Any]:
    """The schemas that the paths refer to."""
    agent = {
        **dict.fromkeys(("id", "name", "host", "service", "function", "tool"), _TEXT),
        **dict.fromkeys(("description", "type", "model"), _TEXT),
        **dict.fromkeys(("specializations", "capabilities", "tags"), _TEXTS),
        **dict.fromkeys(("local", "default_capable"), _TRUTH),
    }
    answer = {
        "answer": _TEXT,
        "agent": _made(dict.fromkeys(("id", "name", "service"), _TEXT)),
        "routed": _made(
            {
                "by": {"enum": ["named", "conversation", "default_capable", "only", "classifier"]},
                "reason": _TEXT,
            }
        ),
        "conversation_id": _TEXT,
    }
    return {"agents.Agent": _made(agent), "agents.Answer": _made(answer)}


def agent_paths(
    security: list[dict[str, list[str]]] | None = None, *, asking: bool = False
) -> dict[str, Any]:
    """The paths of agents. ``security`` is what the lists say of tokens; with ``asking``, questions too."""
    listed = _made({"agents": {"type": "array", "items": _ref("Agent")}})
    question = {"message": {"type": "string", "minLength": 1}, "conversation_id": _TEXT}
    decision = _made(
        {
            "question": _TEXT,
            "decision": {"enum": ["approve", "reject", "edit", "answer", "cancel"]},
            "text": _TEXT,
            "args": {"type": "object"},
        }
    )
    events = {"text/event-stream": {"schema": _TEXT}}
    answers = {"application/json": {"schema": _ref("Answer")}, **events}
    paths: dict[str, Any] = {
        "/v1/agents": {
            "get": _operation(
                "list", "The agents, of this host and of others.", {"application/json": {"schema": listed}}
            )
        },
        "/v1/agents/events": {
            "get": _operation("follow", "The agents as they arrive, change and depart.", events)
        },
        "/v1/agents/messages": {
            "post": _operation("ask_any", "Ask the agent that the question is for.", answers)
            | _body(question, ["message"])
        },
        "/v1/agents/{name}/messages": {
            "post": _operation("ask", "Ask an agent, or decide what it waits for.", answers)
            | {"parameters": [_NAME]}
            | _body(question | {"decision": decision}, [])
        },
    }
    if security is not None:
        for operation in (one for methods in paths.values() for one in methods.values()):
            if asking or "requestBody" not in operation:
                operation["security"] = security
    return paths


def _operation(name: str, summary: str, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": f"agents.{name}",
        "summary": summary,
        "tags": ["agents"],
        "responses": {
            "200": {"description": summary, "content": content},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }


def _body(members: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = _made(members) | {"required": required, "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _made(members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": members}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/agents.{name}"}
