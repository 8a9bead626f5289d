"""What a request for a chat completion asks: rows of a conversation, and options for the model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from enginehost.agents.media import check_media
from enginehost.errors import ConfigError, InvalidRequest
from enginehost.llm.message import Message, Role, Type
from enginehost.serve.openai.faults import Unsupported
from enginehost.specs import signature_from_spec
from enginehost.values import MalformedJson, decode

_PASSED_ON = (
    "top_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "verbosity",
    "top_k",
    "min_p",
    "repetition_penalty",
)
"""Go to the model's provider as they are."""
_IGNORED = frozenset(
    {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prediction"}
)
_READ = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "stop",
        "reasoning_effort",
        "n",
        "logprobs",
    }
)
_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
}
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
_MOST_MESSAGES = 100_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. ``options`` are those of :class:`~enginehost.llm.options.Options`."""

    model: str
    rows: Sequence[Message]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stream: bool = False
    usage: bool = False
    """Whether a stream ends with the usage."""


def asked_in(body: Mapping[str, Any]) -> Asked:
    """Raises ``InvalidRequest``, with the member that is wrong as ``detail["param"]``."""
    for name, value in body.items():
        if value is not None and name not in _READ and name not in _PASSED_ON and name not in _IGNORED:
            raise Unsupported(name[:100], f"{name[:100]} is not taken here")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Unsupported("model", "model must name one of GET /v1/models")
    if body.get("n") not in (None, 1):
        raise Unsupported("n", "one answer is given: n must be 1")
    if body.get("logprobs"):
        raise Unsupported("logprobs", "logprobs are not given here")
    settings = _mapping(body, "stream_options")
    return Asked(
        model,
        rows_in(body.get("messages")),
        _options(body),
        _flag(body, "stream"),
        _flag(settings, "include_usage"),
    )


def _options(body: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if tools := body.get("tools"):
        found["tools"] = [_tool(one, at) for at, one in enumerate(_list(tools, "tools"))]
        found["tool_choice"] = _choice(body.get("tool_choice"))
        if body.get("parallel_tool_calls") is not None:
            found["parallel_tools"] = _flag(body, "parallel_tool_calls")
    if (schema := _schema(body)) is not None:
        found["schema"] = schema
    most = body.get("max_completion_tokens") or body.get("max_tokens")
    named = {
        "max_tokens": most,
        "temperature": body.get("temperature"),
        "stop": body.get("stop"),
        "reasoning": body.get("reasoning_effort"),
    }
    found |= {name: value for name, value in named.items() if value is not None}
    extra = {name: body[name] for name in _PASSED_ON if body.get(name) is not None}
    return found | ({"extra": extra} if extra else {})


def _tool(given: Any, at: int) -> Any:
    spec = given if isinstance(given, dict) else {}
    if cast("dict[str, Any]", spec).get("type") != "function":
        raise Unsupported(f"tools[{at}]", "a tool is {type: function, function: {name, parameters}}")
    try:
        return signature_from_spec(cast("dict[str, Any]", spec), "openai")
    except (ConfigError, InvalidRequest) as error:
        raise Unsupported(f"tools[{at}]", f"tools[{at}]: {error.message}") from None


def _choice(given: Any) -> str:
    if given is None:
        return "auto"
    if isinstance(given, str):
        return given
    function = cast("dict[str, Any]", given).get("function") if isinstance(given, dict) else None
    name = cast("dict[str, Any]", function).get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise Unsupported("tool_choice", "tool_choice is auto, none, required, or names a function")
    return name


def _schema(body: Mapping[str, Any]) -> dict[str, Any] | None:
    form = _mapping(body, "response_format")
    match form.get("type", "text"):
        case "text":
            return None
        case "json_object":
            return {"type": "object"}
        case "json_schema":
            schema = _mapping(form, "json_schema").get("schema")
            if isinstance(schema, dict):
                return cast("dict[str, Any]", schema)
            raise Unsupported("response_format", "response_format.json_schema.schema must be a JSON Schema")
        case _:
            text = "response_format.type is text, json_object or json_schema"
            raise Unsupported("response_format", text)


# Messages


def rows_in(given: Any) -> list[Message]:
    """The messages of a request as rows."""
    listed = _list(given, "messages")
    if not listed or len(listed) > _MOST_MESSAGES:
        raise Unsupported("messages", "messages must be a list of messages, and not empty")
    tools: dict[str, str] = {}
    rows: list[Message] = []
    for at, one in enumerate(listed):
        place = f"messages[{at}]"
        try:
            rows += _rows(one, place, tools)
        except Unsupported:
            raise
        except InvalidRequest as error:
            raise Unsupported(place, f"{place}: {error.message}") from None
    return rows


def _rows(given: Any, at: str, tools: dict[str, str]) -> list[Message]:
    if not isinstance(given, dict):
        raise Unsupported(at, f"{at} must be an object")
    message = cast("dict[str, Any]", given)
    role = _ROLES.get(str(message.get("role")))
    if role is None:
        raise Unsupported(f"{at}.role", f"{at}.role must be one of {', '.join(_ROLES)}")
    if role is Role.TOOL:
        return [_result(message, at, tools)]
    rows = _contents(message.get("content"), role, f"{at}.content")
    if role is Role.ASSISTANT:
        calls = _list(message.get("tool_calls") or [], f"{at}.tool_calls")
        rows += [_call(call, f"{at}.tool_calls[{number}]", tools) for number, call in enumerate(calls)]
    elif not rows:
        raise Unsupported(f"{at}.content", f"{at}.content is missing")
    return rows


def _contents(content: Any, role: Role, at: str) -> list[Message]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Message(role, Type.TEXT, content)] if content or role is not Role.ASSISTANT else []
    return [_part(part, role, f"{at}[{number}]") for number, part in enumerate(_list(content, at))]


def _part(given: Any, role: Role, at: str) -> Message:
    part = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    kind = part.get("type")
    if kind in ("text", "refusal") and isinstance(part.get(kind), str):
        return Message(role, Type.TEXT, part[kind])
    if kind == "image_url" and role is Role.USER:
        url = _mapping(part, "image_url").get("url")
        if isinstance(url, str) and url:
            return _media(Type.IMAGE, url, {})
    if kind == "file" and role is Role.USER:
        file = _mapping(part, "file")
        data, name = file.get("file_data"), file.get("filename")
        if isinstance(data, str) and data:
            return _media(Type.FILE, data, {"name": name} if isinstance(name, str) else {})
    raise Unsupported(
        at, f"{at} must be a part of type text, or in a user's message image_url or file (data)"
    )


def _media(kind: Type, url: str, query: dict[str, Any]) -> Message:
    found = _DATA_URL.fullmatch(url)
    if found is not None:
        row = Message(Role.USER, kind, found[2], query | {"media_type": found[1].lower()})
    else:
        row = Message(Role.USER, kind, "", query | {"url": url})
    check_media(row)
    return row


def _call(given: Any, at: str, tools: dict[str, str]) -> Message:
    call = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    function = _mapping(call, "function")
    name, number, text = function.get("name"), call.get("id"), function.get("arguments")
    if not (isinstance(name, str) and name and isinstance(number, str) and number and isinstance(text, str)):
        raise Unsupported(at, f"{at} must have an id and a function with name and arguments (a text)")
    try:
        args: Any = decode(text.encode("utf-8", "surrogatepass")) if text.strip() else {}
    except MalformedJson:
        args = None
    if not isinstance(args, dict):
        raise Unsupported(at, f"{at}.function.arguments must be the text of a JSON object")
    tools[number] = name
    return Message(Role.ASSISTANT, Type.TOOL_CALL, query={"tool": name, "id": number, "args": args})


def _result(message: Mapping[str, Any], at: str, tools: Mapping[str, str]) -> Message:
    number = message.get("tool_call_id")
    if not isinstance(number, str) or number not in tools:
        raise Unsupported(f"{at}.tool_call_id", f"{at}.tool_call_id must be the id of a call before it")
    texts = [row.content for row in _contents(message.get("content"), Role.TOOL, f"{at}.content")]
    query = {"tool": tools[number], "id": number}
    return Message(Role.TOOL, Type.TOOL_RESULT, json_text("".join(texts)), query=query)


def json_text(text: str) -> str:
    """A result as JSON text: as it is where it is some, else as a JSON string."""
    try:
        decode(text.encode("utf-8", "surrogatepass"))
    except MalformedJson:
        return json.dumps(text)
    return text


def _list(given: Any, at: str) -> list[Any]:
    if not isinstance(given, list):
        raise Unsupported(at, f"{at} must be a list")
    return cast("list[Any]", given)


def _mapping(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = members.get(name)
    if found is not None and not isinstance(found, dict):
        raise Unsupported(name, f"{name} must be an object")
    return cast("dict[str, Any]", found or {})


def _flag(members: Mapping[str, Any], name: str) -> bool:
    found = members.get(name)
    if found is not None and not isinstance(found, bool):
        raise Unsupported(name, f"{name} must be true or false")
    return bool(found)
