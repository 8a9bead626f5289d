"""What a program asks of a model besides the rows, and the request that is made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from enginehost.engine import Function
from enginehost.errors import ConfigError, InvalidRequest, ResultInvalid
from enginehost.llm.model import ModelRequest, ToolChoice
from enginehost.names import FaceNames
from enginehost.schema_walk import TooMuch
from enginehost.signature import FunctionSignature
from enginehost.validation import Validator

Tool = str | Function | FunctionSignature
"""A function: its name in the catalog, or itself."""

Signature = Callable[[str], FunctionSignature]
"""The signature of a function of the catalog that the caller may view."""

_CHOICES = ("auto", "none", "required")


class Options(TypedDict, total=False):
    """What ``send`` takes by name. What is left out is as the model's file has it."""

    model: str
    """An id that the provider lists, or a part of one that only one id has."""
    tools: Iterable[Tool] | Tool
    tool_choice: str | ToolChoice
    """``auto``, ``none``, ``required``, or the name of a tool."""
    parallel_tools: bool
    schema: Any
    """A JSON Schema, a pydantic model or a dataclass: the answer has this form."""
    max_tokens: int | None
    temperature: float | None
    stop: Sequence[str] | str
    reasoning: str
    """``low``, ``medium`` or ``high``."""
    cache: bool
    timeout: float | None
    """Seconds that the provider's next byte may take."""
    total_timeout: float | None
    """Seconds for everything, repetitions included."""
    extra: Mapping[str, Any]
    """Goes into the provider's request as it is; what the engine writes there itself is refused."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a structured answer: its schema, and how a value of it is made."""

    schema: Mapping[str, Any]
    validator: Validator
    make: Callable[[Any], Any] | None = None

    def value(self, data: Any) -> Any:
        """The value of checked ``data``. Raises :class:`ResultInvalid`."""
        try:
            if not self.validator.is_valid(data):
                rule = self.validator.broken_rule(data)
                raise ResultInvalid(f"the model's answer does not fit the schema: {rule}")
        except TooMuch:
            raise ResultInvalid("the model's answer is too much for a schema that refers to itself") from None
        if self.make is None:
            return data
        try:
            return self.make(data)
        except ValueError as error:
            raise ResultInvalid(f"the model's answer does not fit: {error}") from None


def form_of(given: Any) -> Form | None:
    """The form that ``schema`` asks for. Raises :class:`InvalidRequest`."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        schema, make = cast("Mapping[str, Any]", given), None
    elif isinstance(given, type):
        schema, make = _of_class(cast("type[Any]", given))
    else:
        text = f"a schema is a JSON Schema, a pydantic model or a dataclass, not {type(given).__name__}"
        raise InvalidRequest(text)
    try:
        return Form(schema, Validator(schema), make)
    except ConfigError as error:  # the validator speaks of signatures
        why = str(error.__cause__ or error.message).partition("\n")[0][:300]
        raise InvalidRequest(f"schema is no JSON Schema: {why}") from None


def _of_class(cls: type[Any]) -> tuple[Mapping[str, Any], Callable[[Any], Any]]:
    from pydantic import BaseModel, TypeAdapter

    if not issubclass(cls, BaseModel) and not dataclasses.is_dataclass(cls):
        raise InvalidRequest(f"{cls.__name__} is neither a pydantic model nor a dataclass")
    adapter: TypeAdapter[Any] = TypeAdapter(cls)
    return adapter.json_schema(), adapter.validate_python


def request_of(options: Mapping[str, Any], signature: Signature, form: Form | None) -> ModelRequest:
    """The request of checked options, but for the model's id.

    Raises :class:`InvalidRequest` and ``UnknownFunction``.
    """
    tools = tuple(_signature(tool, signature) for tool in options.get("tools", ()))
    faces = FaceNames((tool.name for tool in tools), "openai")
    if len(faces) < len(tools):
        raise InvalidRequest("two tools have one name")
    return ModelRequest(
        model=options.get("model", ""),
        tools=tools,
        names={tool.name: faces.to_face(tool.name) for tool in tools},
        tool_choice=_choice(options.get("tool_choice", "auto"), tools),
        parallel_tools=options.get("parallel_tools", True),
        schema=form.schema if form is not None else None,
        max_tokens=options.get("max_tokens"),
        temperature=options.get("temperature"),
        stop=options.get("stop", ()),
        reasoning=options.get("reasoning", ""),
        cache=options.get("cache", True),
        timeout=options.get("timeout"),
        extra=options.get("extra", {}),
    )


def _signature(tool: Tool, find: Signature) -> FunctionSignature:
    if isinstance(tool, str):
        return find(tool)
    return tool.signature if isinstance(tool, Function) else tool


def _choice(given: str | ToolChoice, tools: Sequence[FunctionSignature]) -> ToolChoice:
    choice = given
    if isinstance(choice, str):
        choice = ToolChoice(choice) if choice in _CHOICES else ToolChoice("tool", choice)
    if choice.kind == "tool" and choice.name not in {tool.name for tool in tools}:
        raise InvalidRequest(f"tool_choice {choice.name!r} is none of the tools")
    if choice.kind == "required" and not tools:
        raise InvalidRequest("tool_choice required needs tools")
    return choice
