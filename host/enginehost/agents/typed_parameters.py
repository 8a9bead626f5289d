"""The parameters of a method: their JSON Schema, and arguments as the types that the hints ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Optional, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from enginehost.agents.typed_schemas import BAD_HINT, BYTES, Schemas, adapter_of
from enginehost.agents.typed_source import MethodSource, Taken, default_fault, hint_fault
from enginehost.errors import InvalidArguments
from enginehost.validation import Validator
from enginehost.value_faults import first_fault
from enginehost.values import from_json


@dataclass(frozen=True, slots=True)
class TypedParameters:
    """A model of all parameters; ``names`` are theirs by the model's fields."""

    model: type[BaseModel]
    names: Mapping[str, str]
    schema: Mapping[str, Any]
    has_bytes: bool
    """Whether some value may come in base64 under a marker."""

    def read(self, function: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the hints ask for them. Raises ``InvalidArguments``."""
        given = from_json(dict(arguments)) if self.has_bytes else arguments
        try:
            values = self.model.model_validate(given)
        except ValidationError as error:
            faults = [_fault(one) for one in error.errors(include_url=False, include_input=False)]
            raise InvalidArguments(f"{function}: {first_fault(error)}", errors=faults) from None
        return {name: getattr(values, field) for field, name in self.names.items()}


def typed_parameters(source: MethodSource) -> TypedParameters:
    """The parameters of a method. Raises ``ConfigError`` at the one whose hint is wrong."""
    for one in source.parameters:
        _check(source, one)
    # an alias for each, since pydantic has names of its own
    names = {f"p{index}": one.name for index, one in enumerate(source.parameters)}
    fields: dict[str, Any] = {field: _field(one) for field, one in zip(names, source.parameters, strict=True)}
    model = create_model(source.name, __config__=ConfigDict(extra="forbid"), **fields)
    schema = model.model_json_schema(schema_generator=Schemas)
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return TypedParameters(model, names, schema, BYTES in json.dumps(schema, default=str))


def check_defaults(source: MethodSource, schema: Mapping[str, Any]) -> None:
    """A call that leaves a parameter out gets its default, which has to fit as a caller's value does.

    Raises ``ConfigError`` at the one that does not.
    """
    definitions = {name: schema[name] for name in ("$defs",) if name in schema}
    for name, own in schema["properties"].items():
        if "default" not in own:
            continue
        validator = Validator(definitions | {"properties": {name: own}})
        if not validator.is_valid(given := {name: own["default"]}):
            raise default_fault(source.where, name, validator.errors(given)[0]["message"])


def _fault(fault: Mapping[str, Any]) -> dict[str, str]:
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in fault["loc"])
    return {"pointer": "".join(f"/{step}" for step in steps), "message": str(fault["msg"])}


def _check(source: MethodSource, one: Taken) -> None:
    try:
        adapter_of(one.hint).json_schema(schema_generator=Schemas)
    except BAD_HINT as error:
        raise hint_fault(source.where, one.name, one.hint, error) from error


def _field(one: Taken) -> tuple[Any, Any]:
    """Hint and field. What stands in the hint goes before what the docstring says."""
    hint, default = one.hint, one.default
    about = _description(hint) or one.description or None
    if isinstance(default, FieldInfo):  # pydantic's way of writing a default
        about = default.description or about
        return Annotated[hint, default], Field(alias=one.name, description=about)
    if default is None and not _takes_none(hint):  # authors write x: int = None
        hint = Optional[hint]  # noqa: UP045 - the hint is a value here
    return hint, Field(default, alias=one.name, description=about)


def _takes_none(hint: Any) -> bool:
    try:
        TypeAdapter(hint).validate_python(None)
    except ValidationError:
        return False
    return True


def _description(hint: Any) -> str:
    """What ``Annotated`` says of a parameter: a text, ``Doc(…)``, or ``Field(description=…)``."""
    for told in getattr(hint, "__metadata__", ()):
        if isinstance(told, str):
            return told
        for name in ("documentation", "description"):
            if isinstance(text := getattr(told, name, None), str):
                return text
    inner = [arg for arg in get_args(hint) if arg is not type(None)]
    return _description(inner[0]) if len(inner) == 1 and type(None) in get_args(hint) else ""
