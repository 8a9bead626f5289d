"""What a request of Converse says besides the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from enginehost.errors import InvalidRequest
from enginehost.llm.claude import cannot_be_made_to_call, reasoning_level
from enginehost.llm.model import ModelRequest
from enginehost.llm.structured import ABOUT_ANSWER_TOOL, Structured, answer_tool, closed
from enginehost.specs import to_spec
from enginehost_bedrock.config import BedrockConfig
from enginehost_bedrock.families import family_of, reasoning_fields

_CHOICES = {"auto": "auto", "required": "any", "tool": "tool"}
_NOT_EXTRA = frozenset({"messages", "system", "modelId"})


def head_of(request: ModelRequest, config: BedrockConfig) -> tuple[dict[str, Any], Structured | None]:
    """The members of the body before ``system`` and ``messages``, and where structured output is to be found.

    Raises :class:`InvalidRequest` for what Converse cannot do.
    """
    head: dict[str, Any] = {}
    inference: dict[str, Any] = {}
    if (most := request.max_tokens or config.max_tokens) is not None:
        inference["maxTokens"] = most
    if request.temperature is not None:
        inference["temperature"] = request.temperature
    if request.stop:
        inference["stopSequences"] = list(request.stop)
    tools = _tools(request)
    if tools:
        head["toolConfig"] = tools
    if request.reasoning:
        _think(head, inference, request, config)
    structured = None if request.schema is None else _structure(head, request, config, request.schema)
    if inference:
        head["inferenceConfig"] = inference
    for name, value in request.extra.items():
        if name in _NOT_EXTRA:
            raise InvalidRequest(f"{name} cannot be given as an extra: it is made of the messages")
        found = head.get(name)
        head[name] = {**found, **value} if isinstance(found, dict) and isinstance(value, Mapping) else value
    return head, structured


def _tools(request: ModelRequest) -> dict[str, Any]:
    choice = request.tool_choice
    if not request.tools:
        return {}
    if choice.kind == "none":
        raise InvalidRequest("Converse cannot be told to call no tool", detail={"hint": "offer no tools"})
    if choice.kind not in _CHOICES:
        raise InvalidRequest(f"tool_choice is one of {', '.join(_CHOICES)}, not {choice.kind!r}")
    if not request.parallel_tools:
        raise InvalidRequest(
            "Converse cannot be told to call one tool at a time", detail={"hint": "allow parallel tools"}
        )
    inner = {"name": request.names.get(choice.name, choice.name)} if choice.kind == "tool" else {}
    return {
        "tools": [to_spec(one, "bedrock", name=request.names.get(one.name)) for one in request.tools],
        "toolChoice": {_CHOICES[choice.kind]: inner},
    }


def _think(
    head: dict[str, Any], inference: dict[str, Any], request: ModelRequest, config: BedrockConfig
) -> None:
    family = family_of(request.model, config.model_family)
    if family == "anthropic" and config.thinking == "adaptive":
        head["additionalModelRequestFields"] = {"thinking": {"type": "adaptive"}}
        head["outputConfig"] = {"effort": reasoning_level(request.reasoning)}
        return
    fields, taken = reasoning_fields(family, request.model, request.reasoning, request.max_tokens)
    head["additionalModelRequestFields"] = fields
    if taken and request.max_tokens is None:
        inference["maxTokens"] = (config.max_tokens or 4096) + taken


def _structure(
    head: dict[str, Any], request: ModelRequest, config: BedrockConfig, schema: Mapping[str, Any]
) -> Structured:
    if config.structured_output == "format":
        text = orjson.dumps(closed(schema)).decode()
        inner = {"jsonSchema": {"name": "answer", "schema": text}}
        output: dict[str, Any] = head.setdefault("outputConfig", {})
        output["textFormat"] = {"type": "json_schema", "structure": inner}
        return Structured()
    if request.reasoning and family_of(request.model, config.model_family) == "anthropic":
        raise cannot_be_made_to_call()
    found: dict[str, Any] = head.setdefault("toolConfig", {"tools": []})
    structured, shown = answer_tool(schema, [tool["toolSpec"]["name"] for tool in found["tools"]])
    spec = {"name": structured.tool, "description": ABOUT_ANSWER_TOOL, "inputSchema": {"json": shown}}
    found["toolChoice"] = {"any": {}} if found["tools"] else {"tool": {"name": structured.tool}}
    found["tools"].append({"toolSpec": spec})
    return structured
