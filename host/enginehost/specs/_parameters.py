"""The parameters of a function as model vendors take them.

What the vendors refuse (each with an error about the whole request) and what stands instead:

- ``oneOf``, ``anyOf``, ``allOf``, ``not``, ``enum`` at the top level (OpenAI, Anthropic, Bedrock):
  moved into the description;
- ``true`` and ``false`` as the schema of a property (OpenAI): ``{}`` and ``{"not": {}}``;
- an array without ``items`` (OpenAI, Gemini): ``"items": {}``;
- a parameter whose name has other characters than the vendor likes: renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from enginehost.names import PARAMETER_RULES, FaceNames
from enginehost.specs._schema import every_schema, follow, in_order, plain, rewrite

TOP_LEVEL_REFUSED = ("oneOf", "anyOf", "allOf", "not", "enum", "const")

_IN_PLACE_MANY = ("allOf", "anyOf", "oneOf")
_IN_PLACE_ONE = ("not", "if", "then", "else")
_MENTIONS_NAMES = ("patternProperties", "propertyNames", "$ref", "const", "enum")


def tool_parameters(parameters: Mapping[str, Any], kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema to show, and the top-level keywords that have to be said in the description."""
    schema = _renamed(acceptable(parameters), parameter_names(parameters, kind))
    moved = {key: schema.pop(key) for key in TOP_LEVEL_REFUSED if key in schema}
    return in_order(schema), moved


def acceptable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """``parameters`` without ``$schema``, a ``$ref`` at the top, boolean schemas and open arrays."""
    schema: dict[str, Any] = rewrite(parameters, _acceptable)
    schema.pop("$schema", None)
    if "$ref" in schema:
        target = follow(schema, schema)
        schema = dict(target) if isinstance(target, Mapping) else {}
    return schema


def _acceptable(schema: dict[str, Any]) -> dict[str, Any]:
    declared = schema.get("type")
    if (declared == "array" or (isinstance(declared, list) and "array" in declared)) and (
        schema.get("items", True) is True
    ):
        schema["items"] = {}
    for keyword in ("properties", "$defs", "patternProperties", "dependentSchemas"):
        named = schema.get(keyword)
        if isinstance(named, dict):
            schema[keyword] = {name: _no_boolean(sub) for name, sub in named.items()}
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if keyword in schema:
            schema[keyword] = [_no_boolean(sub) for sub in schema[keyword]]
    return schema


def _no_boolean(schema: Any) -> Any:
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return schema


def parameter_names(parameters: Mapping[str, Any], kind: str) -> Mapping[str, str]:
    """The parameters that this kind has to rename, with their names there.

    A schema that points at its own parameters (``#/properties/…``) or speaks of their names in a
    way that cannot follow keeps them.
    """
    rule = PARAMETER_RULES.get(kind)
    properties = parameters.get("properties") or {}
    if rule is None or all(rule.fits(name) for name in properties):
        return {}
    schema = acceptable(parameters)
    names = FaceNames(schema.get("properties") or {}, rule).mapped
    return names if _may_rename(schema) else {}


def _may_rename(schema: dict[str, Any]) -> bool:
    references = (str(sub["$ref"]) for sub in every_schema(schema) if "$ref" in sub)
    return all(ref.startswith(("#/$defs/", "#/definitions/")) for ref in references) and not any(
        keyword in part for part in _in_place(schema) for keyword in _MENTIONS_NAMES
    )


def _in_place(schema: dict[str, Any]) -> Iterable[dict[str, Any]]:
    yield schema
    inner = [schema[key] for key in _IN_PLACE_ONE if key in schema]
    inner += [sub for key in _IN_PLACE_MANY for sub in schema.get(key, ())]
    inner += list((schema.get("dependentSchemas") or {}).values())
    for sub in inner:
        if isinstance(sub, dict):
            yield from _in_place(sub)


def _renamed(schema: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """``schema`` with its parameters under their new names, wherever it speaks of them."""
    if not names:
        return schema
    for part in list(_in_place(schema)):
        for keyword in ("properties", "dependentSchemas", "dependentRequired"):
            if keyword in part:
                part[keyword] = {names.get(name, name): value for name, value in part[keyword].items()}
        if "required" in part:
            part["required"] = [names.get(name, name) for name in part["required"]]
        for name, needs in (part.get("dependentRequired") or {}).items():
            part["dependentRequired"][name] = [names.get(need, need) for need in needs]
    for name, face in names.items():
        declared = schema["properties"][face]
        if isinstance(declared, dict):
            declared.setdefault("title", name)  # the model should still read the real name
    return schema


def rename_keys(arguments: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """``arguments`` with their keys replaced by ``names``."""
    return {names.get(key, key): value for key, value in arguments.items()}


def restored(parameters: Any, moved: Mapping[str, Any] | None) -> dict[str, Any]:
    """The inverse of :func:`tool_parameters`: the moved keywords stand at the top again."""
    return in_order({**plain(parameters or {}), **(moved or {})})
