"""What a Python file declares, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from enginehost.engine import RunMode
from enginehost.errors import ConfigError

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class PythonSource:
    """The names a file binds at module level.

    ``functions`` are those defined in the file itself, with how they run; ``classes`` its classes;
    ``names`` whatever else is bound (imports, assignments). ``open`` means that more names may
    appear when it runs (``from x import *``). ``version`` changes with the file.
    """

    functions: dict[str, RunMode]
    classes: dict[str, ast.ClassDef]
    names: frozenset[str]
    open: bool
    version: tuple[int, int]

    def may_have(self, name: str) -> bool:
        """Whether running the file may bind ``name``."""
        return self.open or name in self.functions or name in self.classes or name in self.names

    def nearest(self, name: str) -> list[str]:
        """Functions and classes of the file that look like ``name``, else some that there are."""
        there = [*self.functions, *self.classes]
        return get_close_matches(name, there, n=3, cutoff=0.5) or sorted(there)[:3]


def read_source(file: Path) -> PythonSource:
    """Read a file (kept until it changes). Raises ``OSError`` and :class:`ConfigError`."""
    stat = file.stat()
    return _read(file, stat.st_mtime_ns, stat.st_size)


@lru_cache(256)
def _read(file: Path, mtime_ns: int, size: int) -> PythonSource:
    try:
        tree = ast.parse(file.read_bytes(), file.name)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 0) or 0
        column = getattr(error, "offset", 0) or 0
        text = getattr(error, "msg", None) or str(error)
        where = f"line {line}, column {column}: " if line else ""
        raise ConfigError(f"{file.name}: {where}{text}", reason="script-syntax") from error
    return _describe(tree, (mtime_ns, size))


def _describe(tree: ast.Module, version: tuple[int, int]) -> PythonSource:
    functions: dict[str, RunMode] = {}
    classes: dict[str, ast.ClassDef] = {}
    names: set[str] = set()
    for node in _own_scope(tree.body):
        if isinstance(node, _FUNCTIONS):
            functions[node.name] = _mode(node)
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = node
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
    return PythonSource(functions, classes, frozenset(names), "*" in names, version)


def _mode(function: ast.FunctionDef | ast.AsyncFunctionDef) -> RunMode:
    yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in _own_scope(function.body))
    if isinstance(function, ast.AsyncFunctionDef):
        return RunMode.ASYNC_STREAM if yields else RunMode.ASYNC
    return RunMode.SYNC_STREAM if yields else RunMode.SYNC


def _own_scope(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All nodes that run in the scope of ``body``: not what functions and classes in it contain."""
    stack = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))
