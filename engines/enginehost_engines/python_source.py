"""What a Python file declares, read without running it."""

from __future__ import annotations

import ast
import errno
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from enginehost.engine import RunMode
from enginehost.errors import ConfigError

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)


_MAKES_NAMES = re.compile(
    rb"\b(?:exec|eval|globals|locals|vars|setattr)\s*\(|\b__getattr__\b|\b__dict__\b|\bsys\s*\.\s*modules\b"
)
"""By these means a module may get names that its text does not bind."""


class Parameters(NamedTuple):
    """What a function takes.

    ``names`` by keyword, in order; ``positional`` by position only; ``required``: those of both without
    default; ``further``: any other keyword too (``**rest``).
    """

    names: tuple[str, ...]
    positional: tuple[str, ...]
    required: tuple[str, ...]
    further: bool


@dataclass(frozen=True, slots=True)
class PythonSource:
    """The names a file binds at module level.

    ``functions`` are those defined in the file itself, with how they run; ``parameters`` what those of them
    take that nothing wraps or replaces; ``classes`` its classes; ``names`` whatever else is bound (imports,
    assignments); ``text`` its content.
    """

    functions: dict[str, RunMode]
    parameters: dict[str, Parameters]
    classes: dict[str, ast.ClassDef]
    names: frozenset[str]
    text: bytes

    def may_have(self, name: str) -> bool:
        """Whether running the file may bind ``name``; only where it surely cannot, the answer is no."""
        return (
            name in self.functions
            or name in self.classes
            or name in self.names
            or "*" in self.names
            or _MAKES_NAMES.search(self.text) is not None
            or re.search(rb"\bglobal\b[^\n]*\b%s\b" % re.escape(name.encode()), self.text) is not None
        )

    def nearest(self, name: str) -> list[str]:
        """Functions and classes of the file that look like ``name``, else some that there are."""
        there = [*self.functions, *self.classes]
        return get_close_matches(name, there, n=3, cutoff=0.5) or sorted(there)[:3]


def read_source(file: Path) -> PythonSource:
    """Read a file (kept until it changes). Raises ``OSError`` and :class:`ConfigError`."""
    found = file.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    return _read(file, found.st_mtime_ns, found.st_size)


@lru_cache(256)
def _read(file: Path, mtime_ns: int, size: int) -> PythonSource:
    text = file.read_bytes()
    try:
        tree = ast.parse(text, file.name)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 0) or 0
        column = getattr(error, "offset", 0) or 0
        text = getattr(error, "msg", None) or str(error)
        where = f"{file.name}:{line}:{column}" if line else file.name
        raise ConfigError(f"{where}: {text}", hint="mend the script", reason="script-syntax") from error
    except (RecursionError, MemoryError) as error:  # the parser's, and only about this file
        message = f"{file.name}: its expressions or blocks nest too deep to be read"
        raise ConfigError(message, reason="script-syntax") from error
    return _describe(tree, text)


def _describe(tree: ast.Module, text: bytes) -> PythonSource:
    functions: dict[str, RunMode] = {}
    parameters: dict[str, Parameters] = {}
    classes: dict[str, ast.ClassDef] = {}
    names: set[str] = set()
    for node in _own_scope(tree.body):
        if isinstance(node, _FUNCTIONS):
            functions[node.name] = _mode(node)
            parameters[node.name] = _parameters(node.args)
            if node.decorator_list:
                names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = node
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
    sure = {name: taken for name, taken in parameters.items() if name not in names}
    return PythonSource(functions, sure, classes, frozenset(names), text)


def bound_names(tree: ast.Module) -> set[str]:
    """The names that running ``tree`` binds."""
    source = _describe(tree, b"")
    return {*source.functions, *source.classes, *source.names}


def _parameters(arguments: ast.arguments) -> Parameters:
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = positional[: len(positional) - len(arguments.defaults)]
    keywords = [
        arg
        for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    return Parameters(
        names=tuple(arg.arg for arg in (*arguments.args, *arguments.kwonlyargs)),
        required=tuple(arg.arg for arg in (*needed, *keywords)),
        positional=tuple(arg.arg for arg in arguments.posonlyargs),
        further=arguments.kwarg is not None,
    )


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
