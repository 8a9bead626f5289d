"""What a request of the Messages API says besides the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.errors import InvalidRequest
from enginehost.llm.claude import cannot_be_made_to_call, reasoning_level, thinking_budget
from enginehost.llm.model import ModelRequest
from enginehost.llm.structured import ABOUT_ANSWER_TOOL, Structured, answer_tool, closed
from enginehost.specs import to_spec
from enginehost_anthropic.config import AnthropicConfig

WITHOUT_TEMPERATURE = "2026-10-21"
"""The version of the API from which on a temperature is an error, even the default one."""

_CHOICES = {"auto": "auto", "none": "none", "required": "any", "tool": "tool"}
_NOT_EXTRA = frozenset({"messages", "system", "stream", "model"})


def head_of(request: ModelRequest, config: AnthropicConfig) -> tuple[dict[str, Any], Structured | None]:
    """The members of the body before ``system`` and ``messages``, and where structured output is to be found.

    Raises :class:`InvalidRequest` for what the API cannot do.
    """
    max_tokens = request.max_tokens or config.max_tokens
    head: dict[str, Any] = {"model": request.model, "max_tokens": max_tokens, "stream": True}
    if request.temperature is not None:
        _check_temperature(config.api_version)
        head["temperature"] = request.temperature
    if request.stop:
        head["stop_sequences"] = list(request.stop)
    if request.tools:
        head["tools"] = [to_spec(one, "anthropic", name=request.names.get(one.name)) for one in request.tools]
        head["tool_choice"] = _tool_choice(request)
    if request.reasoning:
        _think(head, request, config)
    structured = None if request.schema is None else _structure(head, request, config, request.schema)
    for name, value in request.extra.items():
        if name in _NOT_EXTRA:
            raise InvalidRequest(f"{name} cannot be given as an extra: the engine writes it itself")
        head[name] = value
    return head, structured


def _check_temperature(version: str) -> None:
    if version >= WITHOUT_TEMPERATURE:
        raise InvalidRequest(
            f"version {version} of Anthropic's API takes no temperature",
            detail={"hint": "leave it out, or write API_VERSION = 2023-06-01 for an older model"},
        )


def _tool_choice(request: ModelRequest) -> dict[str, Any]:
    choice = request.tool_choice
    if choice.kind not in _CHOICES:
        raise InvalidRequest(f"tool_choice is one of {', '.join(_CHOICES)}, not {choice.kind!r}")
    found: dict[str, Any] = {"type": _CHOICES[choice.kind]}
    if choice.kind == "tool":
        found["name"] = request.names.get(choice.name, choice.name)
    if not request.parallel_tools and choice.kind != "none":
        found["disable_parallel_tool_use"] = True
    return found


def _think(head: dict[str, Any], request: ModelRequest, config: AnthropicConfig) -> None:
    if config.thinking == "adaptive":
        head["thinking"] = {"type": "adaptive", "display": "summarized"}
        head["output_config"] = {"effort": reasoning_level(request.reasoning)}
        return
    budget = thinking_budget(request.reasoning, request.max_tokens)
    if request.max_tokens is None:
        head["max_tokens"] += budget
    head["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _structure(
    head: dict[str, Any], request: ModelRequest, config: AnthropicConfig, schema: Mapping[str, Any]
) -> Structured:
    if config.structured_output == "format":
        output: dict[str, Any] = head.setdefault("output_config", {})
        output["format"] = {"type": "json_schema", "schema": closed(schema)}
        return Structured()
    if request.reasoning:
        raise cannot_be_made_to_call()
    tools: list[dict[str, Any]] = head.setdefault("tools", [])
    structured, shown = answer_tool(schema, [tool["name"] for tool in tools])
    tools.append({"name": structured.tool, "description": ABOUT_ANSWER_TOOL, "input_schema": shown})
    choice: dict[str, Any] = {"type": "any"} if request.tools else {"type": "tool", "name": structured.tool}
    if not request.parallel_tools or not request.tools:
        choice["disable_parallel_tool_use"] = True
    head["tool_choice"] = choice
    return structured
