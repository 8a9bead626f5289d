"""Arguments on their way from a model to a function, and back into a model's history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any

from enginehost.errors import InvalidArguments, InvalidRequest
from enginehost.schema_walk import Budget, TooMuch, Walk
from enginehost.signature import FunctionSignature
from enginehost.specs._parameters import parameter_names, rename_keys
from enginehost.specs._schema import allows_null, follow, types_of
from enginehost.specs._strict import strict_parameters
from enginehost.values import MalformedJson, decode

_PATIENCE = 20_000, 0.2
"""Steps, and seconds of a processor, to find out which branches of a schema arguments belong to."""


def arguments_in(signature: FunctionSignature, kind: str, arguments: Any) -> dict[str, Any]:
    """Arguments as a model sent them, as the function takes them."""
    parsed = _parsed(arguments) if isinstance(arguments, str | bytes | bytearray) else arguments
    if not isinstance(parsed, Mapping):
        raise InvalidArguments(
            "the arguments must be a JSON object",
            errors=[{"pointer": "", "message": "not an object", "allowed": "object"}],
        )
    names = parameter_names(signature.parameters, kind)
    renamed = rename_keys(parsed, {face: name for name, face in names.items()})
    walk = _Restore(signature.parameters, drop_nulls=kind == "openai-strict")
    try:
        restored: dict[str, Any] = walk.value(renamed, signature.parameters)
    except RecursionError as error:
        raise InvalidRequest("the arguments are nested too deeply") from error
    return restored


def arguments_out(signature: FunctionSignature, kind: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call as a model would have sent them."""
    filled = dict(arguments)
    if kind == "openai-strict" and strict_parameters(signature.parameters) is not None:
        filled = _Fill(signature.parameters).value(filled, signature.parameters)
    return rename_keys(filled, parameter_names(signature.parameters, kind))


def _parsed(text: str | bytes | bytearray) -> Any:
    """JSON text; an empty one (OpenAI's way to call a function without parameters) is ``{}``."""
    if not text.strip():
        return {}
    try:
        return decode(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    except MalformedJson as error:
        raise InvalidRequest(f"the arguments are {error.message}") from error


class _Walk:
    """Goes through a value along its schema; subclasses change objects and numbers on the way.

    Each part of the value goes along each part of the schema once, however many ways lead there; what is not
    changed is the same object afterwards.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._done: dict[tuple[int, int], Any] = {}
        """What a value became along a schema, by the ids of the two."""
        self._kept: list[Any] = []
        """Those values: as long as they are here, their ids are their own."""
        self._check = Walk(root, Budget(*_PATIENCE))

    def value(self, value: Any, schema: Any) -> Any:
        if isinstance(value, str | bool | int | None):
            return value
        pair = id(value), id(schema)
        if pair in self._done:
            return self._done[pair]
        self._kept.append(value)
        self._done[pair] = value  # meanwhile
        schema = follow(schema, self._root)
        if isinstance(schema, Mapping):  # all in one function: values nest deeply, and the stack is short
            for sub in schema.get("allOf", ()):
                value = self.value(value, sub)
            for keyword in ("anyOf", "oneOf"):
                if keyword in schema:
                    value = self._branch(value, schema[keyword])
            if isinstance(value, Mapping):
                value = self.object(value, schema)
            elif isinstance(value, list):
                value = self._array(value, schema)
            else:
                value = self.number(value, schema)
        self._done[pair] = value
        return value

    def object(self, value: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
        properties = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        found = {key: self.value(item, properties.get(key, more)) for key, item in value.items()}
        same = type(value) is dict and all(map(is_, found.values(), value.values()))
        return value if same else found

    def _array(self, value: list[Any], schema: Mapping[str, Any]) -> list[Any]:
        first = schema.get("prefixItems") or ()
        rest = schema.get("items")
        found = [self.value(item, first[i] if i < len(first) else rest) for i, item in enumerate(value)]
        return value if all(map(is_, found, value)) else found

    def number(self, value: Any, schema: Mapping[str, Any]) -> Any:
        return value

    def _branch(self, value: Any, branches: Iterable[Any]) -> Any:
        """``value`` along the one branch that it belongs to; unchanged where there is none."""
        possible = [branch for branch in branches if self._may_be(value, branch)]
        for branch in possible:
            changed = self.value(value, branch)
            if len(possible) == 1 or self._is_valid(self.original(value, changed), branch):
                return changed
        return value

    def original(self, value: Any, changed: Any) -> Any:
        """Which of the two the function's own schema describes."""
        raise NotImplementedError

    def _may_be(self, value: Any, branch: Any) -> bool:
        schema = follow(branch, self._root)
        if not isinstance(schema, Mapping):
            return schema is not False
        types = types_of(schema)
        words = ("object",) if isinstance(value, Mapping) else ("array",)
        words = words if isinstance(value, Mapping | list) else ("integer", "number")
        return not types or any(word in types for word in words)

    def _is_valid(self, value: Any, branch: Any) -> bool:
        self._kept.append(value)
        try:
            return self._check.fit(branch, value)
        except TooMuch:  # leave the value alone: the call will say what is wrong with it
            return False


class _Restore(_Walk):
    """From the model: whole floats become integers where those are asked, added nulls go."""

    def __init__(self, root: Mapping[str, Any], *, drop_nulls: bool) -> None:
        super().__init__(root)
        self._drop_nulls = drop_nulls

    def object(self, value: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._drop_nulls and None in value.values():
            properties = schema.get("properties") or {}
            optional = properties.keys() - set(schema.get("required") or ())
            value = {
                key: item
                for key, item in value.items()
                if item is not None or key not in optional or allows_null(properties[key], self._root)
            }
        return super().object(value, schema)

    def number(self, value: Any, schema: Mapping[str, Any]) -> Any:
        types = types_of(schema)
        whole = isinstance(value, float) and value.is_integer()
        return int(value) if whole and "integer" in types and "number" not in types else value

    def original(self, value: Any, changed: Any) -> Any:
        return changed


class _Fill(_Walk):
    """To a strict model: what is absent stands there as ``null``."""

    def object(self, value: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
        absent = dict.fromkeys(schema.get("properties") or ())
        return absent | dict(super().object(value, schema))

    def original(self, value: Any, changed: Any) -> Any:
        return value
