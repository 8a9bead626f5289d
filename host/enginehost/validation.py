"""Arguments and results against their schema: a compiled verdict, and messages that help.

The verdict is jsonschema-rs's (0.5 µs); only a refusal pays for jsonschema's messages.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from itertools import islice
from typing import Any

from enginehost.errors import ConfigError, InvalidArguments, ResultInvalid
from enginehost.signature import JsonSchema
from enginehost.values import NotJson, encode, to_json

_OPENERS = ("additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames", "$ref")
_COMBINERS = ("allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas")
_MOST_ERRORS = 20


def warm_up() -> None:
    """Import what explains wrong arguments, which takes a tenth of a second."""
    _explainer()


def closed(parameters: JsonSchema) -> JsonSchema:
    """The schema with ``additionalProperties: false``, unless it speaks of further properties itself.

    An argument that nobody declared is a mistake of the caller, and dropping it would hide it.
    """
    if any(key in parameters for key in (*_OPENERS, *_COMBINERS)):
        return parameters
    return {**parameters, "additionalProperties": False}


class Validator:
    """One compiled schema. Raises :class:`ConfigError` where it is no schema, or refers to the network."""

    __slots__ = ("_compiled", "_schema")

    def __init__(self, schema: JsonSchema) -> None:
        from jsonschema_rs import Draft202012Validator

        self._schema = schema
        try:
            self._compiled = Draft202012Validator(dict(schema), validate_formats=True, offline=True)
        except ValueError as error:
            text = str(error).partition("\n")[0]
            raise ConfigError(f"the signature holds a schema that is none: {_shortened(text)}") from error

    def is_valid(self, instance: Any) -> bool:
        """Whether the instance fits. One that holds more than JSON's types may fit by its JSON form only."""
        try:
            return self._compiled.is_valid(instance)
        except ValueError:  # jsonschema-rs met a type that JSON does not have
            return False

    def errors(self, instance: Any) -> list[dict[str, Any]]:
        """What is wrong, as ``{"pointer", "message", "allowed"?}``, at most 20, outermost first."""
        from jsonschema import FormatChecker

        checker = _explainer()(dict(self._schema), format_checker=FormatChecker())
        found = [_entry(error) for error in _ordered(checker.iter_errors(instance))]
        if found:
            return found
        return [
            {"pointer": _shortened(pointer(error.instance_path)), "message": _shortened(error.message)}
            for _, error in zip(range(_MOST_ERRORS), self._compiled.iter_errors(instance), strict=False)
        ]

    def broken_rule(self, instance: Any) -> str:
        """The first rule that the instance breaks, told without a word of the instance itself.

        For results: what a function should not have said is not to be read in the error either.
        """
        error = next(iter(self._compiled.iter_errors(instance)), None)
        path = [] if error is None else list(error.schema_path)
        rule: Any = self._schema
        try:
            for part in path:
                rule = rule[part]
        except (KeyError, IndexError, TypeError):  # the way leads over a reference
            rule = {}
        shown = "" if isinstance(rule, Mapping) else f" is {_shortened(_json(rule), 100)}"
        return f"the rule {_shortened(pointer(path))}{shown}"


@cache
def _explainer() -> Any:
    """The validator of jsonschema, with the compiled verdict where its own may take for ever.

    (A pattern that backtracks, and the pairwise comparison of ``uniqueItems``: the caller chose the text.)
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend
    from jsonschema_rs import is_valid

    def pattern(_: Any, wanted: Any, instance: Any, __: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not is_valid({"pattern": wanted}, instance):
            yield ValidationError(f"{_json(_shortened(instance))} does not match {_json(wanted)}")

    def required(_: Any, wanted: Any, instance: Any, __: Any) -> Iterator[Any]:
        if isinstance(instance, dict):
            missing = (name for name in wanted if name not in instance)
            yield from (ValidationError(f"{_json(name)} is a required property") for name in missing)

    def unique(_: Any, wanted: Any, instance: Any, __: Any) -> Iterator[Any]:
        if wanted and isinstance(instance, list) and not is_valid({"uniqueItems": True}, instance):
            yield ValidationError("the items are not all different")

    def by_pattern(_: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if isinstance(instance, dict) and not is_valid({"patternProperties": wanted}, instance):
            yield ValidationError("a parameter does not fit what patternProperties asks of its name")

    def further(checker: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if "patternProperties" not in schema:
            yield from Draft202012Validator.VALIDATORS["additionalProperties"](
                checker, wanted, instance, schema
            )

    return extend(
        Draft202012Validator,
        {
            "pattern": pattern,
            "required": required,
            "uniqueItems": unique,
            "patternProperties": by_pattern,
            "additionalProperties": further,
        },
    )


def _ordered(errors: Iterator[Any]) -> list[Any]:
    taken = [error for _, error in zip(range(10 * _MOST_ERRORS), errors, strict=False)]
    taken.sort(key=lambda error: (len(error.absolute_path), [str(part) for part in error.absolute_path]))
    return taken[:_MOST_ERRORS]


def pointer(parts: Any) -> str:
    """The RFC 6901 JSON pointer of a path of keys and indexes."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _entry(error: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "pointer": _shortened(pointer(error.absolute_path)),
        "message": _shortened(_message(error)),
    }
    match error.validator:
        case "additionalProperties" if isinstance(error.instance, Mapping):
            known = list(error.schema.get("properties", {}))
            entry["message"] = _unknown(error.instance, known)
            entry["allowed"] = known
        case "enum":
            entry["allowed"] = error.validator_value
        case "const":
            entry["allowed"] = [error.validator_value]
        case "type" | "minimum" | "maximum" | "format" | "pattern" | "maxLength" | "minLength":
            entry["allowed"] = {error.validator: error.validator_value}
        case _:
            pass
    return entry


def _message(error: Any) -> str:
    """The message of jsonschema with values as JSON has them, which is what most callers write."""
    shown, wanted = _json(error.instance), error.validator_value
    match error.validator:
        case "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            return f"{shown} is not of type {', '.join(map(_json, kinds))}"
        case "enum":
            return f"{shown} is not one of {_json(wanted)}"
        case "const":
            return f"{_json(wanted)} was expected"
        case "format":
            return f"{shown} is not a {_json(wanted)}"
        case _:
            written = repr(error.instance)
            same = error.message.startswith(written)
            return shown + error.message[len(written) :] if same else error.message


def _json(value: Any) -> str:
    try:
        return encode(value).decode()
    except NotJson:
        return repr(value)


def _shortened(message: str, limit: int = 300) -> str:
    """The message of a megabyte instance prints all of it, which helps nobody."""
    return message if len(message) <= limit else f"{message[: limit // 2]} … {message[-limit // 2 :]}"


def _unknown(instance: Mapping[str, Any], known: list[str]) -> str:
    texts: list[str] = []
    for name in islice((name for name in instance if name not in known), 5):
        near = difflib.get_close_matches(str(name)[:100], known, n=1)
        hint = f"; did you mean {_json(near[0])}?" if near else ""
        texts.append(f"{_json(_shortened(str(name), 100))} is not a parameter{hint}")
    return _shortened("; ".join(texts))


def check_arguments(name: str, validator: Validator, arguments: Mapping[str, Any]) -> None:
    """Raise :class:`InvalidArguments` unless the arguments fit.

    Rich Python values (a ``datetime`` for a ``date-time`` string) count by their JSON form.
    """
    if not validator.is_valid(arguments):
        plain = _plain(name, arguments)
        if not validator.is_valid(plain):
            errors = validator.errors(plain)
            first = errors[0] if errors else {"pointer": "", "message": "does not fit the schema"}
            where = f" at {first['pointer']}" if first["pointer"] else ""
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise InvalidArguments(f"{name}{where}: {first['message']}{more}", errors=errors)


def _plain(name: str, arguments: Mapping[str, Any]) -> Any:
    try:
        return to_json(arguments)
    except NotJson as error:
        found = {"pointer": error.pointer, "message": error.message}
        raise InvalidArguments(f"{name}: {error.message}", errors=[found]) from error


def check_result(name: str, validator: Validator, result: Any) -> None:
    """Raise :class:`ResultInvalid` unless the result is what the signature promises."""
    if validator.is_valid(result):
        return
    plain = to_json(result)
    if not validator.is_valid(plain):
        raise ResultInvalid(
            f"{name} answered with what its signature forbids: {validator.broken_rule(plain)}"
        )


def coerced(parameters: JsonSchema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with text turned to the declared number, boolean, list or object where nothing is lost.

    For loosely typed faces only (command line, query string, SEMOSS-typed files). What does not
    convert stays text, for the validator to refuse.
    """
    properties: Any = parameters.get("properties") or {}
    return {
        name: _coerced(properties.get(name), value) if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _coerced(schema: Any, text: str) -> Any:
    types = schema.get("type") if isinstance(schema, Mapping) else None
    allowed: list[Any] = [types] if isinstance(types, str) else list(types or ())
    if not allowed or "string" in allowed:
        return text
    for kind in allowed:
        value = _as(kind, text)
        if value is not None:
            return value
    return None if "null" in allowed and text in ("null", "") else text


def _as(kind: str, text: str) -> Any:
    """``text`` as a JSON value of ``kind``, ``None`` where it is none or would change its meaning."""
    stripped = text.strip()
    if kind == "boolean":
        return {"true": True, "false": False}.get(stripped.lower())
    if kind == "integer":
        return _integer(stripped)
    if kind not in _JSON_TYPES:
        return None
    try:
        value = json.loads(stripped, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, bool) or not isinstance(value, _JSON_TYPES[kind]):
        return None
    return value


_JSON_TYPES: Mapping[str, tuple[type, ...]] = {"number": (int, float), "array": (list,), "object": (dict,)}


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON's")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _integer(text: str) -> int | None:
    """``7``, ``7.0`` and ``7e2``, exactly; a double would lose digits."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    if isinstance(value, Decimal):
        small = value.is_finite() and value.adjusted() < _MOST_DIGITS
        return int(value) if small and value == value.to_integral_value() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_MOST_DIGITS = 400
"""Digits of an integer written with an exponent; a double goes to 309."""


def defaults(parameters: JsonSchema) -> dict[str, Any]:
    """The declared default of each parameter that has one."""
    properties: Any = parameters.get("properties") or {}
    return {
        name: schema["default"]
        for name, schema in properties.items()
        if isinstance(schema, Mapping) and "default" in schema
    }
