"""Tools of Anthropic (Messages), Amazon Bedrock (Converse) and Google Gemini."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.signature import FunctionSignature
from enginehost.specs._kind import SpecKind, member
from enginehost.specs._notes import split_note, with_note
from enginehost.specs._parameters import restored, tool_parameters
from enginehost.specs._results import (
    from_converse,
    from_response,
    from_text,
    to_converse,
    to_response,
    to_text,
)


def _fallback(name: str) -> str:
    """What stands where a vendor demands a description and the function has none."""
    return f"The function {name}."


def _anthropic(signature: FunctionSignature, name: str) -> dict[str, Any]:
    schema, moved = tool_parameters(signature.parameters, "anthropic")
    description = with_note(signature.description, moved)
    head = {"name": name, "description": description} if description else {"name": name}
    return {**head, "input_schema": schema}


def _read_anthropic(spec: Mapping[str, Any]) -> FunctionSignature:
    return _read(spec, member(spec, "input_schema", Mapping))


def _bedrock(signature: FunctionSignature, name: str) -> dict[str, Any]:
    schema, moved = tool_parameters(signature.parameters, "bedrock")
    description = with_note(signature.description, moved) or _fallback(name)
    return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}}


def _read_bedrock(spec: Mapping[str, Any]) -> FunctionSignature:
    tool = member(spec, "toolSpec", Mapping)
    return _read(tool, member(member(tool, "inputSchema", Mapping), "json", Mapping))


def _gemini(signature: FunctionSignature, name: str) -> dict[str, Any]:
    """With ``parametersJsonSchema`` (JSON Schema) rather than ``parameters`` (a subset of OpenAPI's).

    A function without parameters leaves it out, as the API asks.
    """
    schema, moved = tool_parameters(signature.parameters, "gemini")
    description = with_note(signature.description, moved) or _fallback(name)
    spec: dict[str, Any] = {"name": name, "description": description}
    if schema != {"type": "object", "properties": {}}:
        spec["parametersJsonSchema"] = schema
    return spec


def _read_gemini(spec: Mapping[str, Any]) -> FunctionSignature:
    return _read(spec, member(spec, "parametersJsonSchema", Mapping, {}))


def _read(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> FunctionSignature:
    name = member(spec, "name", str)
    description, moved = split_note(member(spec, "description", str, ""))
    return FunctionSignature(
        name=name,
        description="" if description == _fallback(name) else description,
        parameters=restored(schema, moved),
    )


ANTHROPIC = SpecKind(_anthropic, _read_anthropic, to_text, from_text)
BEDROCK = SpecKind(_bedrock, _read_bedrock, to_converse, from_converse)
GEMINI = SpecKind(_gemini, _read_gemini, to_response, from_response)
