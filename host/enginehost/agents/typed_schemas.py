"""JSON Schema of Python's hints, in the JSON form that :mod:`enginehost.values` gives to values."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_type_hints

import typing_extensions
from pydantic import TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import SchemaError

BAD_HINT = (
    PydanticUserError,
    PydanticUndefinedAnnotation,
    SchemaError,
    AssertionError,
    NameError,
    TypeError,
    RecursionError,
)
"""What pydantic raises for a hint of which it can make nothing."""

BYTES = "$bytes"
"""The marker of bytes in JSON, as :mod:`enginehost.values` has it."""

_LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


class Schemas(GenerateJsonSchema):
    """What is different here: no titles made of names, and forms that callers of every language write.

    JSON Schema's ``date-time`` and ``time`` would refuse what Python has without an offset, and ``duration``
    parts of a second.
    """

    ignored_warning_kinds: set[Any] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as pydantic has it

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never: a name is told once."""
        return False

    def datetime_schema(self, schema: Any) -> JsonSchemaValue:
        """RFC 3339, with or without an offset."""
        return {"type": "string", "examples": ["2026-01-31T12:30:00Z"]}

    def time_schema(self, schema: Any) -> JsonSchemaValue:
        """Likewise."""
        return {"type": "string", "examples": ["12:30:00"]}

    def timedelta_schema(self, schema: Any) -> JsonSchemaValue:
        """ISO 8601."""
        return {"type": "string", "examples": ["P1DT2H30M"]}

    def decimal_schema(self, schema: Any) -> JsonSchemaValue:
        """A number, or text with every digit; answers are text."""
        if self.mode == "serialization":
            return {"type": "string"}
        limits = {word: float(schema[key]) for key, word in _LIMITS.items() if schema.get(key) is not None}
        return {"type": ["number", "string"], **limits}

    def bytes_schema(self, schema: Any) -> JsonSchemaValue:
        """Base64 under a marker, as answers have it; who calls may send text."""
        marked = {"type": "object", "properties": {BYTES: {"type": "string"}}, "required": [BYTES]}
        return marked if self.mode == "serialization" else {"anyOf": [{"type": "string"}, marked]}

    def call_schema(self, schema: Any) -> JsonSchemaValue:
        """A named tuple, as pydantic had it before 2.13."""
        return {"type": "object"} if self.mode == "serialization" else super().call_schema(schema)

    def named_tuple_schema(self, schema: Any) -> JsonSchemaValue:
        """A named tuple is taken as an array, and answered as an object."""
        if self.mode != "serialization":
            return super().named_tuple_schema(schema)
        fields = {one["name"]: self.generate_inner(one["schema"]) for one in schema["fields"]}
        return {"type": "object", "properties": fields, "required": list(fields)}


def adapter_of(hint: Any) -> TypeAdapter[Any]:
    """What reads and describes values of a hint. Raises one of :data:`BAD_HINT`."""
    admit(hint)
    return TypeAdapter(hint)


def admit(hint: Any) -> None:
    """Have pydantic take the standard library's ``TypedDict``, which it refuses before Python 3.12."""
    if sys.version_info >= (3, 12):
        return
    for kind in _typed_dicts(hint, set()):
        if type(kind).__module__ == "typing" and "__get_pydantic_core_schema__" not in vars(kind):
            kind.__get_pydantic_core_schema__ = classmethod(_as(_twin(kind)))


def _as(twin: Any) -> Callable[..., Any]:
    def schema(cls: Any, source: Any, handler: Any) -> Any:
        return handler.generate_schema(twin)

    return schema


def _twin(kind: Any) -> Any:
    """The same ``TypedDict`` as pydantic takes it."""
    hints = get_type_hints(kind, include_extras=True)
    fields: Any = {name: _kept(hint, name in kind.__required_keys__) for name, hint in hints.items()}
    make: Any = typing_extensions.TypedDict
    return make(kind.__name__, fields)


def _kept(hint: Any, required: bool) -> Any:
    """With its ``Required`` or ``NotRequired``: where hints are text, only that, once read, tells."""
    if typing_extensions.get_origin(hint) in (typing_extensions.Required, typing_extensions.NotRequired):
        return hint
    return typing_extensions.Required[hint] if required else typing_extensions.NotRequired[hint]


def _typed_dicts(hint: Any, seen: set[int]) -> Iterator[Any]:
    """All of them in a hint, also in the fields of dataclasses."""
    if id(hint) in seen:
        return
    seen.add(id(hint))
    inner: list[Any] = list(get_args(hint))
    if typing_extensions.is_typeddict(hint):
        yield hint
    if typing_extensions.is_typeddict(hint) or dataclasses.is_dataclass(hint):
        inner += get_type_hints(hint, include_extras=True).values()
    for one in inner:
        yield from _typed_dicts(one, seen)
