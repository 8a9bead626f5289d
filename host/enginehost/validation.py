"""Arguments and results against their schema: a compiled verdict, and messages that help.

The verdict is jsonschema-rs's (0.5 µs), except for the few schemas with which it may take for ever; only a
refusal pays for the messages. Both have a budget: callers choose the values, and files the schemas.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from itertools import islice
from typing import Any, cast

from enginehost.errors import ConfigError, InvalidArguments, ResultInvalid
from enginehost.names import parameter_behind
from enginehost.schema_references import is_endless, resolved
from enginehost.schema_walk import Budget, Fault, TooMuch, Walk
from enginehost.signature import JsonSchema
from enginehost.values import NotJson, encode, to_json
from enginehost.values._convert import Survey, survey

_OPENERS = ("additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames", "$ref")
_COMBINERS = ("allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas")
_MOST_ERRORS = 20
_MOST_TOLD = 5
_LONGEST_SUMMARY = 800


def closed(parameters: JsonSchema) -> JsonSchema:
    """The schema with ``additionalProperties: false``, unless it speaks of further properties itself.

    An argument that nobody declared is a mistake of the caller, and dropping it would hide it.
    """
    if any(key in parameters for key in (*_OPENERS, *_COMBINERS)):
        return parameters
    return {**parameters, "additionalProperties": False}


_OF_A_RECORD = frozenset({"type", "properties", "required", "additionalProperties", "title", "description"})
_ANNOTATIONS = frozenset({"title", "description", "default", "examples"})


def _keywords(declared: Mapping[str, Any], name: str) -> Set[str]:
    """What is asked of a property; of one that is not declared, more than can be told."""
    schema = declared.get(name)
    return schema.keys() if isinstance(schema, Mapping) else {name, ""}


def _is_block(value: Any) -> bool:
    """Bytes, and arrays of numpy."""
    return isinstance(value, (bytes, bytearray)) or type(value).__module__ == "numpy"


class Validator:
    """One compiled schema. Raises :class:`ConfigError` where it is no schema, or refers to the network.

    What takes ``hurry`` raises :class:`~enginehost.schema_walk.TooMuch` with it, where the answer takes more
    than about two milliseconds: then it is to be asked again without, on a thread.
    """

    __slots__ = ("_compiled", "_endless", "_schema")

    def __init__(self, schema: JsonSchema) -> None:
        from jsonschema_rs import Draft202012Validator

        self._schema = schema
        try:
            self._compiled = Draft202012Validator(dict(schema), validate_formats=True, offline=True)
        except ValueError as error:
            text = str(error).partition("\n")[0]
            raise ConfigError(f"the signature holds a schema that is none: {_shortened(text)}") from error
        self._endless = is_endless(schema)

    def at_once(self, instance: Any) -> bool:
        """Whether the instance is known to fit at once; where not, :meth:`is_valid` tells.

        One that holds more than JSON's types may fit by its JSON form only.
        """
        if self._endless:
            return False
        try:
            return self._compiled.is_valid(instance)
        except ValueError:  # jsonschema-rs met a type that JSON does not have
            return self._free_of_rules(instance)

    def _free_of_rules(self, instance: Any) -> bool:
        """Whether it fits with all that is large and may be anything left out: nobody writes that as JSON."""
        if type(instance) is not dict or not self._schema.keys() <= _OF_A_RECORD:
            return False
        declared = self._schema.get("properties", {})
        fields: dict[str, Any] = instance
        stripped = {
            name: None if _is_block(value) and _keywords(declared, name) <= _ANNOTATIONS else value
            for name, value in fields.items()
        }
        try:
            return self._compiled.is_valid(stripped)
        except ValueError:
            return False

    def is_valid(self, instance: Any, *, hurry: bool = False) -> bool:
        """Whether the instance fits. Raises ``TooMuch`` where that cannot be told (in a hurry: so soon)."""
        return self._walk(hurry).fits(instance) if self._endless else self.at_once(instance)

    def errors(self, instance: Any, *, hurry: bool = False) -> list[dict[str, Any]]:
        """What is wrong, as ``{"pointer", "message", "allowed"?}``, at most 20, outermost first."""
        found: list[Fault] = []
        try:
            for fault in islice(self._walk(hurry).faults(instance), 10 * _MOST_ERRORS):
                found.append(fault)  # noqa: PERF402 - what was found before the budget ended counts
        except TooMuch:
            if hurry:
                raise
        if not found:
            return [{"pointer": "", "message": "the arguments do not fit the schema"}]
        found.sort(key=lambda fault: len(fault.path))
        return [_entry(fault) for fault in found[:_MOST_ERRORS]]

    def broken_rule(self, instance: Any, *, hurry: bool = False) -> str:
        """The first rule that the instance breaks, told without a word of the instance itself.

        For results: what a function should not have said is not to be read in the error either.
        """
        try:
            fault = next(self._walk(hurry).faults(instance), None)
        except TooMuch:
            if hurry:
                raise
            fault = None
        if fault is None:
            return "its schema as a whole"
        rule = fault.schema[fault.keyword] if fault.keyword else fault.schema
        shown = "" if isinstance(rule, Mapping) else f" is {_shortened(_json(rule), 100)}"
        return f"the rule {_shortened(pointer(fault.rule))}{shown}"

    def _walk(self, hurry: bool) -> Walk:
        return Walk(self._schema, Budget(*_IN_A_HURRY if hurry else _WITH_TIME))


_IN_A_HURRY = 500, 0.002
"""Steps, and seconds of a processor, for which the event loop may be held."""
_WITH_TIME = 50_000, 1.0


def pointer(parts: Any) -> str:
    """The RFC 6901 JSON pointer of a path of keys and indexes."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _entry(fault: Fault) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "pointer": _shortened(pointer(fault.path)),
        "message": _shortened(_message(fault)),
    }
    match fault.keyword:
        case "additionalProperties":
            known = list(fault.schema.get("properties", {}))
            entry["message"] = unknown_names(fault.value, known)
            entry["allowed"] = known
        case "enum":
            entry["allowed"] = fault.wanted
        case "const":
            entry["allowed"] = [fault.wanted]
        case "type" | "minimum" | "maximum" | "format" | "pattern" | "maxLength" | "minLength":
            entry["allowed"] = {fault.keyword: fault.wanted}
        case _:
            pass
    return entry


def _message(fault: Fault) -> str:
    """What is wrong, with values as JSON has them, which is what most callers write."""
    wanted = fault.wanted
    match fault.keyword:
        case "required":
            return f"{_json(wanted)} is a required property"
        case "const":
            return f"{_json(wanted)} was expected"
        case "uniqueItems":
            return "the items are not all different"
        case "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            text = f"is not of type {', '.join(map(_json, kinds))}"
        case "minLength" | "minItems" | "minProperties" if wanted == 1:
            text = "should not be empty"
        case "maxLength" | "maxItems" | "maxProperties" if wanted == 0:
            text = "should be empty"
        case keyword:
            text = _TEXTS[keyword].format(_json(wanted), s="" if wanted == 1 else "s")
    return f"{_shortened(_json(fault.value))} {text}"


_TEXTS: Mapping[str, str] = {
    "": "is not allowed here",
    "additionalProperties": "has names that are not allowed",
    "anyOf": "is not valid under any of the given schemas",
    "contains": "does not hold as many items of the kind that it should",
    "dependentRequired": "lacks a property that another one requires: {}",
    "enum": "is not one of {}",
    "exclusiveMaximum": "is not less than {}",
    "exclusiveMinimum": "is not greater than {}",
    "format": "is not a {}",
    "maxItems": "has more than {} item{s}",
    "maxLength": "is longer than {} character{s}",
    "maxProperties": "has more than {} name{s}",
    "maximum": "is greater than the maximum of {}",
    "minItems": "has fewer than {} item{s}",
    "minLength": "is shorter than {} character{s}",
    "minProperties": "has fewer than {} name{s}",
    "minimum": "is less than the minimum of {}",
    "multipleOf": "is not a multiple of {}",
    "not": "should not be valid under {}",
    "oneOf": "is valid under none, or under several, of schemas of which it should fit one",
    "pattern": "does not match {}",
    "unevaluatedItems": "has items that are not allowed",
    "unevaluatedProperties": "has names that are not allowed",
}
"""What is said of a value that does not fit a keyword, with what the keyword asks for."""


def _json(value: Any) -> str:
    try:
        return encode(value).decode()
    except NotJson:
        return repr(value)


def _shortened(message: str, limit: int = 300) -> str:
    """The message of a megabyte instance prints all of it, which helps nobody."""
    return message if len(message) <= limit else f"{message[: limit // 2]} … {message[-limit // 2 :]}"


def unknown_names(instance: Mapping[str, Any], known: Sequence[str]) -> str:
    """Which names of an object are none that are ``known``, and what may have been meant."""
    unknown = islice((str(name) for name in instance if name not in known), 5)
    texts = [f"{_json(_shortened(name, 100))} is not a parameter{_meant(name, known)}" for name in unknown]
    return _shortened("; ".join(texts))


def _meant(name: str, known: Sequence[str]) -> str:
    """What was meant by a name that no parameter has: one of a tool list's making, or a misspelt one."""
    if found := parameter_behind(name, known):
        own, kind = found
        return f" (it stands for {_json(own)} in {kind} tools: send their calls with ?format={kind})"
    near = difflib.get_close_matches(name[:100], known, n=1)
    return f" ({_DID_YOU_MEAN} {_json(near[0])}?)" if near else ""


_DID_YOU_MEAN = "did you mean"


def check_arguments(
    name: str, validator: Validator, arguments: Mapping[str, Any], *, hurry: bool = False
) -> None:
    """Raise :class:`InvalidArguments` unless the arguments fit; ``hurry`` as in :class:`Validator`.

    Rich Python values (a ``datetime`` for a ``date-time`` string) count by their JSON form; bytes also by
    their base64 text, which is what a parameter of bytes declares.
    """
    if validator.at_once(arguments):
        return
    plain = _plain(name, arguments)
    try:
        if validator.is_valid(plain, hurry=hurry):
            return
        if plain is not arguments and validator.is_valid(_with_base64(plain), hurry=hurry):
            return
    except TooMuch:
        if hurry:
            raise
        message = "the arguments are too many, or nest too deep, for a schema that refers to itself"
        raise InvalidArguments(f"{name}: {message}", errors=[{"pointer": "", "message": message}]) from None
    errors = validator.errors(plain, hurry=hurry)
    raise InvalidArguments(summary(name, errors), errors=errors)


def _with_base64(plain: Any) -> Any:
    """The JSON form with the bare base64 text where it has a marker; what only looks like one is escaped."""
    match plain:
        case {"$bytes": text} if len(plain) == 1:
            return text
        case dict():
            fields: dict[str, Any] = plain
            return {key: _with_base64(value) for key, value in fields.items()}
        case list():
            items: list[Any] = plain
            return [_with_base64(value) for value in items]
        case _:
            return plain


def refuse_names(name: str, given: Collection[str], parameters: JsonSchema) -> None:
    """Raise :class:`InvalidArguments` if there are names ``given`` that a caller may not set.

    For what a schema lets in that admits more than it declares.
    """
    if given:
        known = list(parameters.get("properties", {}))
        entry = {"pointer": "", "message": unknown_names(dict.fromkeys(given), known), "allowed": known}
        raise InvalidArguments(summary(name, [entry]), errors=[entry])


def summary(name: str, errors: Sequence[Mapping[str, Any]]) -> str:
    """One line that says everything, as far as a line goes: it may be all that somebody reads.

    A misspelt name stands before the required one that it leaves out.
    """
    if not errors:
        return f"{name}: the arguments do not fit the schema"
    first, *others = sorted(errors, key=lambda error: _DID_YOU_MEAN not in error["message"])[:_MOST_TOLD]
    texts = [
        f"at {one['pointer']}: {one['message']}" if one["pointer"] else one["message"]
        for one in (first, *others)
    ]
    more = f" (and {len(errors) - _MOST_TOLD} more)" if len(errors) > _MOST_TOLD else ""
    head = f"{name} " if first["pointer"] else f"{name}: "
    return head + _shortened("; ".join(texts), _LONGEST_SUMMARY) + more


def _plain(name: str, arguments: Mapping[str, Any]) -> Any:
    try:
        if survey(arguments) is Survey.ODD:
            return to_json(arguments)
        encode(arguments)  # far faster than the walk, and as strict
        return arguments
    except NotJson as error:
        errors = [{"pointer": error.pointer, "message": error.reason}]
        raise InvalidArguments(summary(name, errors), errors=errors) from error


def check_result(name: str, validator: Validator, result: Any, *, hurry: bool = False) -> None:
    """Raise :class:`ResultInvalid` unless the result is what the signature promises; ``hurry`` as above."""
    if validator.at_once(result):
        return
    plain = to_json(result)
    try:
        if validator.is_valid(plain, hurry=hurry):
            return
        rule = validator.broken_rule(plain, hurry=hurry)
    except TooMuch:
        if hurry:
            raise
        message = "the result is too much, or nests too deep, for a schema that refers to itself"
        raise ResultInvalid(f"{name}: {message}") from None
    raise ResultInvalid(f"{name} answered with what its signature forbids: {rule}")


def coerced(parameters: JsonSchema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with text turned to the declared number, boolean, list or object where nothing is lost.

    For loosely typed faces only (command line, query string, SEMOSS-typed files). What does not
    convert stays text, for the validator to refuse.
    """
    properties: Any = parameters.get("properties") or {}
    further = parameters.get("additionalProperties")
    return {
        name: _coerced(properties.get(name, further), value, parameters) if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _coerced(schema: Any, text: str, root: JsonSchema) -> Any:
    allowed = list(_types(schema, root))
    if not allowed or "string" in allowed:
        return text
    for kind in allowed:
        value = _as(kind, text)
        if value is not None:
            return value
    return None if "null" in allowed and text in ("null", "") else text


def _types(schema: Any, root: JsonSchema, depth: int = 0) -> Iterator[str]:
    """The types that a schema names, its choices and what it refers to; ``string`` where anything will do."""
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping) or depth > _DEEPEST_CHOICE:
        yield "string"
        return
    types: Any = schema.get("type")
    choices: Any = schema.get("anyOf") or schema.get("oneOf")
    if types:
        yield from [types] if isinstance(types, str) else types
    elif isinstance(choices, list):
        for choice in cast("list[Any]", choices):
            yield from _types(choice, root, depth + 1)
    else:
        yield "string"


_DEEPEST_CHOICE = 5


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
