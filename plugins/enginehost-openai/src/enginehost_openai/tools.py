"""Tools, their calls and structured answers on OpenAI's wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from enginehost.errors import EngineHostError, ExecutionFailed
from enginehost.llm.model import ModelRequest
from enginehost.llm.sse import cut_off
from enginehost.signature import FunctionSignature
from enginehost.specs import arguments_from, arguments_to, to_spec

_WRAPPED = "value"
"""The member in which an answer stands that is no object: OpenAI's schemas are objects."""


class Tools:
    """The tools of one request, as ``kind`` (``openai`` or ``openai-responses``) shows them."""

    def __init__(self, request: ModelRequest, kind: str) -> None:
        self.kind = kind
        self._request = request
        self._by_face = {request.shown(tool.name): tool for tool in request.tools}
        self._by_name = {tool.name: tool for tool in request.tools}

    def specs(self) -> list[dict[str, Any]]:
        """What the model is told of them."""
        return [to_spec(tool, self.kind, name=face) for face, tool in self._by_face.items()]

    def name(self, tool: str) -> str:
        """The name that the model knows a function by."""
        return self._request.shown(tool)

    def text(self, tool: str, arguments: Any) -> str:
        """Arguments of an earlier call as the model wrote them."""
        signature = self._by_name.get(tool)
        if signature is None or not isinstance(arguments, Mapping):
            return orjson.dumps(arguments).decode()
        text = arguments_to(signature, self.kind, arguments)
        return text if isinstance(text, str) else orjson.dumps(text).decode()

    def arguments(self, face: str, text: str) -> dict[str, Any]:
        """The arguments of a call. Raises :class:`ExecutionFailed` where they are no whole JSON object."""
        signature = self._by_face.get(face) or FunctionSignature(face)
        try:
            return arguments_from(signature, self.kind, text.strip() or "{}")
        except EngineHostError:
            error = cut_off(f"the arguments of its call of {face[:100]} are no whole JSON object")
            error.detail |= {"tool": face[:100]}
            raise error from None


class Structured:
    """The form of a structured answer, on the wire and back."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._is_object = schema.get("type") == "object" or "properties" in schema
        if not self._is_object:
            inner = {key: value for key, value in schema.items() if key != "$defs"}
            outer = {"type": "object", "properties": {_WRAPPED: inner}, "required": [_WRAPPED]}
            schema = outer | ({"$defs": schema["$defs"]} if "$defs" in schema else {})
        self._signature = FunctionSignature("answer", parameters=schema)
        function = to_spec(self._signature, "openai-strict")["function"]
        self.format = {"name": "answer", "schema": function["parameters"], "strict": function["strict"]}
        """Name, schema, and whether the provider holds the model to it."""
        self._kind = "openai-strict" if function["strict"] else "openai"

    def value(self, text: str) -> str:
        """The answer as JSON text of the schema that was asked for."""
        try:
            found: Any = arguments_from(self._signature, self._kind, text)
        except EngineHostError:
            raise ExecutionFailed(
                "the model's structured answer is no whole JSON",
                detail={"type": "CutOff", "retryable": True},
            ) from None
        return orjson.dumps(found if self._is_object else found.get(_WRAPPED)).decode()
