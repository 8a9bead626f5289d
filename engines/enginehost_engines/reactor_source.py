"""What a reactor class declares, read from its file without running it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from enginehost.engine import RunMode
from enginehost.reactor import description, read_keys
from enginehost_engines.dotted import DottedClass

_ATTRIBUTES = {
    "keys_to_get": "keys_to_get",
    "keysToGet": "keys_to_get",
    "key_required": "key_required",
    "keyRequired": "key_required",
    "key_multi": "key_multi",
    "keyMulti": "key_multi",
    "key_types": "key_types",
    "key_descriptions": "key_descriptions",
}
_METHODS = frozenset(
    [
        *("get_reactor_description", "getReactorDescription", "get_description_for_key"),
        *("getDescriptionForKey", "get_key_type", "getKeyTypeForMCP"),
        *("get_response_schema", "getResponseSchema"),
        *("__new__", "__init_subclass__", "__getattribute__", "__getattr__"),
    ]
)
"""What these say only running them tells."""

_TYPE_NAMES = frozenset({*vars(builtins), "Any", "Optional", "date", "datetime"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def read_nouns(dotted: DottedClass) -> dict[str, Any] | None:
    """What ``enginehost.reactor.describe`` would say; ``None`` where only running the code can tell."""
    node = _class(dotted, dotted.name)
    if node is None or _bases(node) != ["Reactor"] or node.decorator_list or node.keywords:
        return None
    if any(isinstance(one, _FUNCTIONS) and one.name in _METHODS for one in node.body):
        return None
    statements = list(_running(node.body))
    assigned = list(_assignments(statements))
    if len(assigned) != sum(map(_mentions, statements)):
        return None  # something else is done with them
    try:
        values = {name: _value(name, value) for name, value in assigned}
        keys = read_keys(values.get("keys_to_get", ()), values.get("key_required"), values.get("key_multi"))
        types: Mapping[str, Any] = values.get("key_types", {})
        texts: Mapping[str, str] = values.get("key_descriptions", {})
        doc = ast.get_docstring(node) or ""
        return description(keys, bool(values.get("key_required")), types.get, texts.get, doc)
    except (TypeError, ValueError, AttributeError):
        return None  # whatever it is, loading the class tells it better


def read_mode(dotted: DottedClass) -> RunMode | None:
    """How ``execute`` runs; ``None`` where the file does not show it."""
    name, seen = dotted.name, set[str]()
    while name not in seen and (node := _class(dotted, name)) is not None:
        seen.add(name)
        found = [one for one in node.body if _binds_execute(one)]
        if found:
            last = found[-1]
            return _mode(last) if isinstance(last, _FUNCTIONS) and not last.decorator_list else None
        bases = _bases(node)
        if len(bases) != 1:
            return None
        name = bases[0]
    return None


def _class(dotted: DottedClass, name: str) -> ast.ClassDef | None:
    return dotted.source.classes.get(name) if dotted.source else None


def _bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).rpartition(".")[2] for base in node.bases]


def _running(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when the class and an instance are made."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield from node.body
        elif not isinstance(node, _FUNCTIONS):
            yield node


def _assignments(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """The attributes above that are simply assigned, on the class or on ``self``."""
    for node in statements:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if (name := _name(target)) in _ATTRIBUTES:
                yield _ATTRIBUTES[name], node.value


def _mentions(statement: ast.stmt) -> int:
    return sum(_name(node) in _ATTRIBUTES for node in ast.walk(statement))


def _name(node: ast.AST) -> str:
    return getattr(node, "id", "") or getattr(node, "attr", "")


def _value(name: str, node: ast.expr) -> Any:
    if name == "key_types" and isinstance(node, ast.Dict):
        keys = [ast.literal_eval(key) for key in node.keys if key is not None]
        return dict(zip(keys, map(_type, node.values), strict=True))
    return ast.literal_eval(node)


def _type(node: ast.expr) -> Any:
    """A type as a word: ``int`` and ``list[str]`` mean the same, quoted or not."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    if names and names <= _TYPE_NAMES and not any(isinstance(one, ast.Call) for one in ast.walk(node)):
        return ast.unparse(node)
    return ast.literal_eval(node)


def _binds_execute(node: ast.stmt) -> bool:
    if isinstance(node, _FUNCTIONS):
        return node.name == "execute"
    return any(isinstance(one, ast.Name) and one.id == "execute" for one in ast.walk(node))


def _mode(function: ast.FunctionDef | ast.AsyncFunctionDef) -> RunMode:
    yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in _own(function.body))
    if isinstance(function, ast.AsyncFunctionDef):
        return RunMode.ASYNC_STREAM if yields else RunMode.ASYNC
    return RunMode.SYNC_STREAM if yields else RunMode.SYNC


def _own(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of a function but those of functions and classes in it."""
    stack = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))
