"""``FUNCTION_PARAMETERS`` and ``FUNCTION_REQUIRED_PARAMETERS``, in every form that people write them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from enginehost.given_schema import KEYWORDS, TYPE_HINT, schema_fault, with_json_types
from enginehost.interpret import Declaration
from enginehost.json_values import kind_of
from enginehost.schema_references import property_names
from enginehost.signature import NO_PARAMETERS, JsonSchema, without_parameters
from enginehost.type_words import type_schema

_PARAMETERS = "FUNCTION_PARAMETERS"
_REQUIRED = "FUNCTION_REQUIRED_PARAMETERS"
_LIST_HINT = 'write a list: [{"name": "city", "type": "string", "description": "…"}]'
_NAMES_HINT = 'write a list of names: ["city"]'
_SEMOSS_FIELDS = frozenset({"parameterName", "parameterType", "parameterDescription"})
_OWN_FIELDS = _SEMOSS_FIELDS | {"name", "type", "description", "required"}
_PLAIN_FIELDS = _OWN_FIELDS - {"required"}
MOST_PARAMETERS = 10_000
"""Parameters of one function; no caller could say what they mean."""

_LONGEST_COMPARED = 100
_SCHEMA_MARKS = ("properties", "$ref", "$defs", "$schema", "allOf", "anyOf", "oneOf", "additionalProperties")


@dataclass(slots=True)
class Parameters:
    """The parameters as the file has them.

    ``given``: people wrote schema keywords of their own; ``semoss``: in SEMOSS's spelling.
    """

    schema: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)
    required: dict[str, None] = field(default_factory=dict)
    given: bool = False
    semoss: bool = False


def read_parameters(declaration: Declaration, *, completed: bool = False) -> Parameters:
    """All parameters; what is wrong goes to the declaration's diagnostics.

    ``completed``: the engine knows them, and the file at most which of them are required.
    """
    parameters = Parameters()
    declared = declaration.json(_PARAMETERS)
    if isinstance(declared, list):
        if _refuse_too_many(declaration, len(declared), _PARAMETERS):
            return parameters
        for position, item in enumerate(declared, 1):
            _read_entry(declaration, parameters, item, position)
    elif isinstance(declared, dict):
        _read_whole(declaration, parameters, cast("dict[str, Any]", declared))
    elif declared is not None:
        message = f"{_PARAMETERS} has to be a JSON list, not {kind_of(declared)}"
        declaration.error(_PARAMETERS, "bad-parameters", message, _LIST_HINT)
    _read_required(declaration, parameters, completed=completed)
    return parameters


def _refuse_too_many(declaration: Declaration, count: int, key: str) -> bool:
    if count > MOST_PARAMETERS:
        message = f"{key} has {count} parameters; a function has at most {MOST_PARAMETERS}"
        declaration.error(key, "bad-parameters", message, "let it take an object or a list")
    return count > MOST_PARAMETERS


def _read_entry(declaration: Declaration, parameters: Parameters, item: Any, position: int) -> None:
    if item is None:
        message = f"{_PARAMETERS}: entry {position} is null and is left out"
        declaration.warning(_PARAMETERS, "null-parameter", message, "delete the comma too many")
        return
    if not isinstance(item, dict):
        message = f"{_PARAMETERS}: entry {position} has to be a JSON object, not {kind_of(item)}"
        declaration.error(_PARAMETERS, "bad-parameter", message, _LIST_HINT)
        return
    entry = cast("dict[str, Any]", item)
    name = entry.get("name", entry.get("parameterName"))
    if not isinstance(name, str) or not name.strip():
        message = f"{_PARAMETERS}: entry {position} has no name"
        declaration.error(_PARAMETERS, "bad-parameter", message, _LIST_HINT)
        return
    parameters.semoss |= "parameterType" in entry or "parameterName" in entry
    if name in parameters.properties:
        message = f"{_PARAMETERS}: {name} is declared twice; the last one counts"
        declaration.warning(_PARAMETERS, "duplicate-parameter", message, "delete one of the two")
    if _is_required(declaration, entry, name):
        parameters.required[name] = None
    parameters.properties[name] = _entry_schema(declaration, parameters, entry, name)


def _is_required(declaration: Declaration, entry: dict[str, Any], name: str) -> bool:
    required = entry.get("required")
    if isinstance(required, str) and required.lower() in ("true", "false"):
        return required.lower() == "true"
    if required is None or isinstance(required, (bool, list)):
        return required is True
    message = f"{_PARAMETERS}: required of {name} has to be true or false, not {_told(declaration, required)}"
    declaration.error(_PARAMETERS, "bad-parameter", message, 'write "required": true')
    return False


def _told(declaration: Declaration, value: Any) -> str:
    """A value of ``FUNCTION_PARAMETERS`` as a message may have it."""
    if isinstance(value, str) and not declaration.is_confidential(_PARAMETERS):
        return repr(value[:_LONGEST_COMPARED])
    return kind_of(value)


def _entry_schema(
    declaration: Declaration, parameters: Parameters, entry: dict[str, Any], name: str
) -> dict[str, Any]:
    declared = entry.get("type", entry.get("parameterType"))
    description = entry.get("description", entry.get("parameterDescription"))
    schema: dict[str, Any] = {}
    if isinstance(declared, str) and declared.strip():
        meant = type_schema(declared)
        if meant is None:
            _warn_of_type(declaration, name, declared)
        schema.update(meant or {})
    elif declared is not None and declared != "":
        schema["type"] = declared
        parameters.given = True
    if description is not None and description != "":
        schema["description"] = description if isinstance(description, str) else str(description)
    if not entry.keys() <= _PLAIN_FIELDS:
        _add_keywords(declaration, parameters, entry, name, schema)
    return schema


def _add_keywords(
    declaration: Declaration,
    parameters: Parameters,
    entry: dict[str, Any],
    name: str,
    schema: dict[str, Any],
) -> None:
    """Put what the entry says besides name, type and description into its schema."""
    further = {key: value for key, value in entry.items() if key not in _OWN_FIELDS}
    if isinstance(entry.get("required"), list):
        further["required"] = entry["required"]
    if not further:
        return
    parameters.given = True
    for key in further.keys() - KEYWORDS:
        if not key.startswith("x-") and not declaration.has_enough_findings:
            nearest = difflib.get_close_matches(key[:_LONGEST_COMPARED], [*KEYWORDS, *_OWN_FIELDS], n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else "JSON Schema 2020-12 has no such keyword"
            message = f"{_PARAMETERS}: {name} has the unknown field {key!r}"
            declaration.warning(_PARAMETERS, "unknown-field", message, hint)
    unknown: list[str] = []
    schema.update(with_json_types(further, unknown))
    for word in unknown:
        _warn_of_type(declaration, name, word)


def _warn_of_type(declaration: Declaration, name: str, word: str) -> None:
    message = f"{_PARAMETERS}: the type {word[:80]!r} of {name} is not known; anything is allowed"
    declaration.warning(_PARAMETERS, "unknown-type", message, TYPE_HINT)


def _read_whole(declaration: Declaration, parameters: Parameters, declared: dict[str, Any]) -> None:
    """Read the one JSON Schema object that stands for all parameters."""
    if declared and declared.get("type") != "object" and not any(mark in declared for mark in _SCHEMA_MARKS):
        message = f"{_PARAMETERS} is neither a list nor the JSON Schema of an object"
        declaration.error(_PARAMETERS, "bad-parameters", message, _LIST_HINT)
        return
    members = declared.get("properties")
    if isinstance(members, dict) and _refuse_too_many(declaration, len(members), _PARAMETERS):
        return
    unknown: list[str] = []
    schema = with_json_types(declared, unknown)
    for word in unknown:
        _warn_of_type(declaration, "a parameter", word)
    properties, required = schema.pop("properties", {}), schema.pop("required", [])
    if schema.setdefault("type", "object") != "object" or not isinstance(properties, dict):
        message = f"{_PARAMETERS}: the schema is not that of an object"
        declaration.error(_PARAMETERS, "bad-parameters", message, '"type" must be "object"')
        return
    parameters.given = bool(declared)
    parameters.schema = schema
    parameters.properties.update(properties)
    _add_required(declaration, parameters, required, _PARAMETERS)


def _read_required(declaration: Declaration, parameters: Parameters, *, completed: bool) -> None:
    names = declaration.json(_REQUIRED)
    if names is not None:
        _add_required(declaration, parameters, names, _REQUIRED)
    for name in parameters.required:
        if name not in parameters.properties:
            message = f"{name} is required but not declared; it may be anything"
            key = _REQUIRED if _REQUIRED in declaration else _PARAMETERS
            if not completed:
                declaration.warning(key, "undeclared-required", message, f"declare it in {_PARAMETERS}")
            parameters.properties[name] = {}


def _add_required(declaration: Declaration, parameters: Parameters, names: Any, key: str) -> None:
    if not isinstance(names, list):
        message = f"{key}: the required names have to be a list, not {kind_of(names)}"
        declaration.error(key, "bad-required", message, _NAMES_HINT)
        return
    if _refuse_too_many(declaration, len(names), key):
        return
    for name in cast("list[Any]", names):
        if isinstance(name, str) and name.strip():
            parameters.required[name] = None
        elif name is None or name == "":
            message = f"{key}: an empty name is left out"
            declaration.warning(key, "null-parameter", message, "delete the comma too many")
        else:
            message = f"{key}: a required name has to be a string, not {kind_of(name)}"
            declaration.error(key, "bad-required", message, _NAMES_HINT)


def object_schema(
    declaration: Declaration, parameters: Parameters, bind: Mapping[str, Any], *, completed: bool = False
) -> JsonSchema:
    """The object schema of all parameters, checked if people wrote parts of it, without the bound ones.

    ``completed`` as of :func:`read_parameters`.
    """
    if not parameters.properties and not parameters.schema:
        if not completed:
            _warn_of_bound(declaration, bind)
        return NO_PARAMETERS
    schema: dict[str, Any] = {"type": "object", "properties": parameters.properties, **parameters.schema}
    if parameters.required:
        schema["required"] = list(parameters.required)
    if parameters.given and (fault := schema_fault(schema)):
        report_schema_fault(declaration, _PARAMETERS, fault)
    if not bind:
        return schema
    if not completed:
        known = property_names(schema)
        _warn_of_bound(declaration, {name: None for name in bind if name not in known})
    return without_parameters(schema, bind)


def report_schema_fault(declaration: Declaration, key: str, fault: str) -> None:
    """Add the error that the schema of ``key`` is unusable; the reason may quote the schema."""
    reason = "not a usable schema" if declaration.is_confidential(key) else fault
    declaration.error(key, "bad-schema", f"{key}: {reason}", "see JSON Schema 2020-12")


def _warn_of_bound(declaration: Declaration, undeclared: Mapping[str, Any]) -> None:
    for name in undeclared:
        message = f"FUNCTION_BIND: {name} is not a declared parameter"
        declaration.warning("FUNCTION_BIND", "undeclared-bind", message, f"declare it in {_PARAMETERS}")
