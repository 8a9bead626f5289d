"""Tools of OpenAI: Chat Completions (free and strict) and Responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.signature import FunctionSignature
from enginehost.specs._kind import SpecKind, member
from enginehost.specs._notes import split_note, with_note
from enginehost.specs._parameters import restored, tool_parameters
from enginehost.specs._results import from_text, to_text
from enginehost.specs._schema import rewrite, types_of
from enginehost.specs._strict import strict_parameters

_DESCRIPTION_LIMIT = 1024  # Chat Completions answers 400 ``string_above_max_length`` beyond it


def _function(signature: FunctionSignature, name: str, limit: int | None) -> dict[str, Any]:
    parameters, moved = tool_parameters(signature.parameters, "openai")
    function: dict[str, Any] = {"name": name}
    description = with_note(signature.description, moved, limit)
    if description:
        function["description"] = description
    function["parameters"] = parameters
    return function


def _chat(signature: FunctionSignature, name: str) -> dict[str, Any]:
    return {"type": "function", "function": _function(signature, name, _DESCRIPTION_LIMIT)}


def _strict(signature: FunctionSignature, name: str) -> dict[str, Any]:
    """Strict where the subset can say the parameters; else the free form, marked ``strict: false``."""
    parameters = strict_parameters(signature.parameters)
    if parameters is None:
        function = _function(signature, name, _DESCRIPTION_LIMIT)
        return {"type": "function", "function": function | {"strict": False}}
    function = {"name": name}
    description = with_note(signature.description, {}, _DESCRIPTION_LIMIT)
    if description:
        function["description"] = description
    return {"type": "function", "function": function | {"parameters": parameters, "strict": True}}


def _responses(signature: FunctionSignature, name: str) -> dict[str, Any]:
    """``strict`` is said, because here its default is *true*, which would change what is asked for."""
    return {"type": "function", **_function(signature, name, None), "strict": False}


def _read_function(function: Mapping[str, Any]) -> FunctionSignature:
    description, moved = split_note(member(function, "description", str, ""))
    parameters = member(function, "parameters", Mapping, {})
    if function.get("strict") is True:
        parameters = rewrite(parameters, _unstrict)
    return FunctionSignature(
        name=member(function, "name", str),
        description=description,
        parameters=restored(parameters, moved),
    )


def _unstrict(schema: dict[str, Any]) -> dict[str, Any]:
    """One strict schema with its note's keywords back; what may be ``null`` is optional again."""
    if isinstance(schema.get("description"), str):
        description, keywords = split_note(schema.pop("description"))
        schema |= ({"description": description} if description else {}) | (keywords or {})
    properties = schema.get("properties")
    if isinstance(properties, dict) and "required" in schema:
        schema["required"] = [name for name in schema["required"] if not _takes_null(properties.get(name))]
    return schema


def _takes_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    parts = (schema, *(schema.get("anyOf") or ()))
    return any("null" in types_of(part) for part in parts if isinstance(part, Mapping))


def _read_chat(spec: Mapping[str, Any]) -> FunctionSignature:
    return _read_function(member(spec, "function", Mapping))


OPENAI = SpecKind(_chat, _read_chat, to_text, from_text, text_arguments=True)
OPENAI_STRICT = SpecKind(_strict, _read_chat, to_text, from_text, text_arguments=True)
OPENAI_RESPONSES = SpecKind(_responses, _read_function, to_text, from_text, text_arguments=True)
