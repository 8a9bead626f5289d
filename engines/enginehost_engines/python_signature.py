"""The signature of a Python function, from its type hints and docstring: read, nothing is run."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from enginehost_engines.docstrings import Documented, DocumentedParameter, read_docstring
from enginehost_engines.python_hints import Hints, Schema, any_of, type_expression
from enginehost_engines.python_neighbours import Neighbour
from enginehost_engines.python_source import Definition, PythonSource

_NOTHING: Any = object()
_SAID_NOTHING = DocumentedParameter("", "")


class Described(NamedTuple):
    """What the source says of a function.

    ``parameters`` is the schema of the object of all its arguments, ``result`` that of what it answers
    (``None``: not said; of a stream: one item). ``converts``: some hint asks for values that JSON does not
    have, such as dates or dataclasses. ``types`` are those that the docstring gives parameters without hint;
    ``positional`` the parameters that are taken by position only.
    """

    description: str
    parameters: Schema
    result: Schema | None
    converts: bool
    types: Mapping[str, str]
    positional: tuple[str, ...]


def described(source: PythonSource, name: str, beside: tuple[Neighbour, ...]) -> Described | None:
    """What the source, or one ``beside`` it, says of a function; ``None`` where none of them defines it."""
    if name in source.definitions:
        return describe(source, name, beside)
    home, _, word = source.imports.get(name, "").rpartition(".")
    other = next((one.source for one in beside if one.module == home), None)
    return describe(other, word) if other is not None and word in other.definitions else None


@lru_cache(1024)
def describe(source: PythonSource, name: str, beside: tuple[Neighbour, ...] = ()) -> Described:
    """What ``source`` says of the function ``name`` that it defines. Do not change it."""
    definition = source.definitions[name]
    told = read_docstring(ast.get_docstring(definition) or "")
    hints = Hints(source, neighbours=beside)
    parameters = _parameters(definition, hints, told)
    answers = Hints(source, result=True, neighbours=beside)
    result = _result(definition, answers, told, streams=source.functions[name].streams)
    types = {} if not hints.converts else dict(_documented_types(definition, told))
    positional = tuple(one.arg for one in definition.args.posonlyargs)
    return Described(told.description, parameters, result, hints.converts, types, positional)


def _documented_types(definition: Definition, told: Documented) -> Iterator[tuple[str, str]]:
    for argument, _ in _by_name(definition.args):
        said = told.parameters.get(argument.arg, _SAID_NOTHING)
        if argument.annotation is None and (text := type_expression(said.type)):
            yield argument.arg, text


def _parameters(definition: Definition, hints: Hints, told: Documented) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for argument, default in _by_name(definition.args):
        said = told.parameters.get(argument.arg, _SAID_NOTHING)
        properties[argument.arg] = _parameter(argument, default, hints, said)
        if default is None or _is_required_field(default, hints):
            required.append(argument.arg)
    schema: Schema = {"type": "object", "properties": properties}
    _add_further(schema, required, definition.args.kwarg, hints)
    if required:
        schema["required"] = required
    if hints.definitions:
        schema["$defs"] = dict(hints.definitions)
    return schema


def _by_name(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """What callers give by its name, with its default; what is taken by position only is handed on so."""
    positional = [*arguments.posonlyargs, *arguments.args]
    padding: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    yield from zip(positional, [*padding, *arguments.defaults], strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def _parameter(
    argument: ast.arg, default: ast.expr | None, hints: Hints, said: DocumentedParameter
) -> Schema:
    hinted = hints.schema(argument.annotation)
    if argument.annotation is None and said.type:
        hinted = hints.text(said.type)
    schema = {**hinted, **hints.field(default)}
    if said.description:
        schema["description"] = said.description
    value = _default(default, hints)
    if value is None and not _fits(None, schema):
        said_of_it = {key: schema.pop(key) for key in ("title", "description") if key in schema}
        schema = {**any_of([schema, {"type": "null"}]), **said_of_it}
    if value is not _NOTHING and _fits(value, schema):
        schema["default"] = value
    return schema


def _default(node: ast.expr | None, hints: Hints) -> Any:
    """A default as JSON has it; ``_NOTHING`` where there is none, or only running the code can tell."""
    if node is None:
        return _NOTHING
    if isinstance(node, ast.Call):
        node = _field_default(node, hints)
        if node is None:
            return _NOTHING
    value = hints.member(node)
    if value is not None:
        return value
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _NOTHING
    return value if _is_plain(value) else _NOTHING


def _field_default(call: ast.Call, hints: Hints) -> ast.expr | None:
    if hints.dotted(call.func).rpartition(".")[2] != "Field":
        return None
    named = next((word.value for word in call.keywords if word.arg == "default"), None)
    found = call.args[0] if call.args else named
    return None if isinstance(found, ast.Constant) and found.value is Ellipsis else found


def _is_required_field(default: ast.expr, hints: Hints) -> bool:
    """Whether a default is pydantic's ``Field`` without one."""
    if not isinstance(default, ast.Call) or hints.dotted(default.func).rpartition(".")[2] != "Field":
        return False
    made = any(word.arg == "default_factory" for word in default.keywords)
    return not made and _field_default(default, hints) is None


def _is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, str | int)


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a default is what its hint asks for: authors write ``x: int = ""``, and callers must not."""
    if not schema.keys() - {"description", "title"}:
        return True
    from jsonschema_rs import ValidationError, is_valid

    try:
        return is_valid(dict(schema), value)
    except (ValueError, ValidationError):  # it refers to a definition that stands elsewhere
        return False


def _add_further(schema: Schema, required: list[str], kwarg: ast.arg | None, hints: Hints) -> None:
    """What ``**rest`` takes."""
    if kwarg is None:
        return
    unpacked = hints.unpacked(kwarg.annotation)
    if unpacked is None or "properties" not in unpacked:
        schema["additionalProperties"] = hints.schema(kwarg.annotation) or True
        return
    schema["properties"] = unpacked["properties"] | schema["properties"]
    required += unpacked.get("required", [])


def _result(definition: Definition, hints: Hints, told: Documented, *, streams: bool) -> Schema | None:
    found = hints.item(definition.returns) if streams else hints.schema(definition.returns)
    if not found:
        return None
    if told.result:
        found = {**found, "description": told.result}
    return {**found, "$defs": dict(hints.definitions)} if hints.definitions else found
