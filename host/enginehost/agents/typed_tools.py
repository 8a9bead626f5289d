"""Typed methods as tools: their hints say what a model has to send, their docstrings what they are for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints, overload

from docstring_parser import parse
from pydantic import ConfigDict, Field, ValidationError, create_model

from enginehost.call import Call
from enginehost.engine import Annotations, Approval, Function, Limits, run_mode
from enginehost.errors import InvalidArguments
from enginehost.signature import FunctionSignature
from enginehost.value_faults import first_fault

_Method = TypeVar("_Method", bound=Callable[..., Any])
_MARK = "__enginehost_tool__"


@dataclass(frozen=True, slots=True)
class Mark:
    """What :func:`tool` says of a method."""

    name: str
    annotations: Annotations
    approval: Approval
    timeout: float | None


@overload
def tool(method: _Method, /) -> _Method: ...


@overload
def tool(
    *,
    name: str = "",
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    approval: Approval | str = Approval.NEVER,
    timeout: float | None = None,
) -> Callable[[_Method], _Method]: ...


def tool(
    method: Any = None,
    /,
    *,
    name: str = "",
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    approval: Approval | str = Approval.NEVER,
    timeout: float | None = None,
) -> Any:
    """Make a method of an :class:`~enginehost.agents.python_agent.Agent` a tool of it.

    ``def``, ``async def`` or a generator. A parameter with the hint :class:`~enginehost.engine.Call` gets the
    call, and is none of the model's. ``timeout`` in seconds; the rest is what a function's file says of it
    (``FUNCTION_ANNOTATIONS``, ``APPROVAL``).
    """
    hints = Annotations(read_only=read_only, destructive=destructive, idempotent=idempotent)
    mark = Mark(name, hints, Approval(approval), timeout)

    def marked(method: _Method) -> _Method:
        setattr(method, _MARK, mark)
        return method

    return marked if method is None else marked(method)


def tools_of(agent: object) -> list[Function]:
    """The tools of an agent's class and of those it comes from, in the order in which they stand there."""
    return [typed_function(getattr(agent, name), mark) for name, mark in _marks(type(agent))]


def _marks(cls: type[Any]) -> Iterator[tuple[str, Mark]]:
    names = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
    for name in names:
        mark = getattr(getattr(cls, name, None), _MARK, None)
        if isinstance(mark, Mark):
            yield name, mark


def typed_function(method: Callable[..., Any], mark: Mark) -> Function:
    """A bound method as a function. Raises ``TypeError`` for parameters that have no names."""
    hints = get_type_hints(method, include_extras=True)
    told = parse(inspect.getdoc(method) or "")
    about = {one.arg_name: one.description or "" for one in told.params}
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    takes_call = ""
    for index, (name, parameter) in enumerate(inspect.signature(method).parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{method.__name__}: a tool has no parameter such as {parameter}")
        hint = hints.get(name, Any)
        if hint is Call:
            takes_call = name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        names[f"p{index}"] = name  # an alias, since pydantic has names of its own
        fields[f"p{index}"] = (hint, Field(default, alias=name, description=about.get(name) or None))
    model = create_model(method.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    own = mark.name or method.__name__

    def run(arguments: dict[str, Any], call: Call) -> Any:
        try:
            values = model.model_validate(arguments)
        except ValidationError as error:
            raise InvalidArguments(f"{own}: {first_fault(error)}") from None
        given = {name: getattr(values, field) for field, name in names.items()}
        return method(**given, **({takes_call: call} if takes_call else {}))

    mode = run_mode(method)
    signature = FunctionSignature(
        own,
        " ".join(filter(None, (told.short_description, told.long_description))),
        _schema(model),
        annotations=mark.annotations,
        streaming=mode.streams,
    )
    return Function(signature, run, mode, limits=Limits(timeout=mark.timeout), approval=mark.approval)


def _schema(model: Any) -> dict[str, Any]:
    """The object schema, without the titles that pydantic makes of names."""
    schema = model.model_json_schema()
    schema.pop("title", None)
    for one in schema.setdefault("properties", {}).values():
        one.pop("title", None)
    return schema
