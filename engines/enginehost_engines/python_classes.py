"""Classes of a script that have a JSON form (dataclasses, typed dicts, named tuples, pydantic models, enums)
as JSON Schema: read from the source.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Schema = dict[str, Any]
Member = str | int | float | bool | None

_ENUMS = frozenset(["Enum", "IntEnum", "StrEnum", "ReprEnum"])
_RECORDS = frozenset(["TypedDict", "NamedTuple", "BaseModel"])
_FIELDLESS = frozenset(["object", "NamedTuple", "Generic", "Protocol", "ABC"])
"""Classes of others that bring no fields."""


class ClassSchemas:
    """The schemas of the ``classes`` of a file.

    ``dotted`` gives the whole name of an expression, ``schema`` the schema of a hint, ``field`` what a
    default says of its field; ``given``: of what callers send, where pydantic's fields have the names under
    which it takes them, and dataclasses and named tuples take no others than their fields.
    ``definitions`` holds those classes that contain themselves.
    """

    def __init__(
        self,
        classes: Mapping[str, ast.ClassDef],
        dotted: Callable[[ast.expr], str],
        schema: Callable[[ast.expr | None], Schema],
        field: Callable[[ast.expr | None], Schema],
        *,
        given: bool,
    ) -> None:
        self._classes = classes
        self._dotted = dotted
        self._schema = schema
        self._field = field
        self._given = given
        self._open: dict[str, bool] = {}
        self.definitions: dict[str, Schema] = {}

    def schema(self, name: str) -> Schema:
        """The schema of a class; ``{}`` where it is none that we know the JSON form of."""
        if name in self._open:
            self._open[name] = True
            return {"$ref": f"#/$defs/{name}"}
        if name in self.definitions:
            return {"$ref": f"#/$defs/{name}"}
        self._open[name] = False
        found = self._found(name)
        if self._open.pop(name):
            self.definitions[name] = found
            return {"$ref": f"#/$defs/{name}"}
        return found

    def member(self, name: str, member: str) -> Member:
        """The value of an enum's member; ``None`` where only running the code can tell."""
        return self._members(name).get(member) if "enum" in self._kinds(name) else None

    def _found(self, name: str) -> Schema:
        kinds = self._kinds(name)
        if "enum" in kinds:
            values = list(dict.fromkeys(self._members(name).values()))
            return choice(values) if None not in values else {}
        if not kinds & {"dataclass", "TypedDict", "NamedTuple", "BaseModel"}:
            return {}
        properties: dict[str, Schema] = {}
        required: dict[str, None] = {}
        self._add_fields(name, properties, required)
        found: Schema = {"type": "object", "properties": properties}
        if required:
            found["required"] = list(required)
        if self._given and self._is_closed(name):
            found["additionalProperties"] = False
        text = (ast.get_docstring(self._classes[name]) or "").partition("\n\n")[0]
        return {**found, "description": text} if text else found

    def _kinds(self, name: str, depth: int = 0) -> frozenset[str]:
        """What a class is, by its bases: ``enum``, ``dataclass``, or one of :data:`_RECORDS`."""
        node = self._classes.get(name)
        if node is None or depth > 20:
            return frozenset()
        decorators = (item.func if isinstance(item, ast.Call) else item for item in node.decorator_list)
        found = {"dataclass" for item in decorators if self._word(item) == "dataclass"}
        for base in node.bases:
            word = self._word(base)
            found |= {word} & _RECORDS
            if word in _ENUMS:
                found.add("enum")
            found |= self._kinds(word, depth + 1)
        return frozenset(found)

    def _is_closed(self, name: str, depth: int = 0) -> bool:
        """Whether a class surely takes its fields alone, and all of them are known."""
        node = self._classes.get(name)
        if node is None or depth > 20 or not self._kinds(name) & {"dataclass", "NamedTuple"}:
            return name in _FIELDLESS
        own = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        hidden = any(
            isinstance(item.target, ast.Name) and item.target.id[0] == "_" for item in self._fields(node)
        )
        bases = (self._word(base) for base in node.bases)
        return (
            not own & {"__init__", "__new__"}
            and not hidden
            and all(self._is_closed(base, depth + 1) for base in bases)
        )

    def _word(self, node: ast.expr) -> str:
        if isinstance(node, ast.Subscript):
            node = node.value
        return self._dotted(node).rpartition(".")[2]

    def _add_fields(
        self, name: str, properties: dict[str, Schema], required: dict[str, None], depth: int = 0
    ) -> None:
        node = self._classes.get(name)
        if node is None or depth > 20:
            return
        for base in reversed(node.bases):
            self._add_fields(self._word(base), properties, required, depth + 1)
        total = not any(
            word.arg == "total" and isinstance(word.value, ast.Constant) and not word.value.value
            for word in node.keywords
        )
        for item in self._fields(node):
            called, optional = self._shape(item)
            if called is None:
                continue
            key = self._alias(item.value) or called
            properties[key] = {**self._schema(item.annotation), **self._field(item.value)}
            hint = self._word(item.annotation)
            required.pop(key, None)
            if not optional and hint != "NotRequired" and (total or hint == "Required"):
                required[key] = None

    def _fields(self, node: ast.ClassDef) -> Iterator[ast.AnnAssign]:
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and self._word(item.annotation) not in ("ClassVar", "KW_ONLY"):
                yield item

    def _shape(self, item: ast.AnnAssign) -> tuple[str | None, bool]:
        """The field's name (``None``: not one that callers give) and whether it may be left out."""
        if not isinstance(item.target, ast.Name) or item.target.id.startswith("_"):
            return None, True
        if not isinstance(item.value, ast.Call) or self._word(item.value.func) not in ("field", "Field"):
            return item.target.id, item.value is not None
        words = {word.arg: word.value for word in item.value.keywords}
        init = words.get("init")
        if isinstance(init, ast.Constant) and init.value is False:
            return None, True
        given = "default" in words or "default_factory" in words
        first = item.value.args[0] if item.value.args else None
        is_default = first is not None and not (isinstance(first, ast.Constant) and first.value is Ellipsis)
        return item.target.id, given or is_default

    def _alias(self, value: ast.expr | None) -> str | None:
        """The name under which pydantic takes a field."""
        if not self._given or not isinstance(value, ast.Call) or self._word(value.func) != "Field":
            return None
        for word in value.keywords:
            if word.arg == "alias" and isinstance(word.value, ast.Constant):
                return str(word.value.value)
        return None

    def _members(self, name: str) -> dict[str, Member]:
        node = self._classes.get(name)
        found: dict[str, Member] = {}
        for item in node.body if node is not None else ():
            if not isinstance(item, ast.Assign) or not isinstance(item.targets[0], ast.Name):
                continue
            member = item.targets[0].id
            if not member.startswith("_"):
                found[member] = self._value(item.value, member, name)
        return found

    def _value(self, node: ast.expr, member: str, name: str) -> Member:
        if isinstance(node, ast.Call) and self._word(node.func) == "auto":
            bases = {self._word(base) for base in self._classes[name].bases}
            return member.lower() if "StrEnum" in bases else None
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
        return value if isinstance(value, str | int | float | bool) else None


def choice(values: Sequence[Member]) -> Schema:
    """The schema of what is one of these values."""
    if not values:
        return {}
    kinds = {type(value) for value in values}
    words: Mapping[type, str] = {str: "string", int: "integer", bool: "boolean"}
    word = words.get(kinds.pop()) if len(kinds) == 1 else None
    return {**({"type": word} if word else {}), "enum": list(values)}
