"""What a Python file declares, read without running it."""

from __future__ import annotations

import ast
import errno
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from enginehost.engine import RunMode
from enginehost.errors import ConfigError

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)
_TYPE_ALIAS = getattr(ast, "TypeAlias", ())
"""``type Name = …`` (Python 3.12)."""


_MAKES_NAMES = re.compile(
    rb"\b(?:exec|eval|globals|locals|vars|setattr)\s*\(|\b__getattr__\b|\b__dict__\b|\bsys\s*\.\s*modules\b"
)
"""By these means a module may get names that its text does not bind."""


class Parameters(NamedTuple):
    """What a function takes.

    ``names`` by keyword, in order; ``positional`` by position only; ``required``: those of both without
    default; ``further``: any other keyword too (``**rest``); ``variable`` is the name of what takes any more
    by position (``*rest``), or empty. ``place`` is where it stands: ``line 7``.
    """

    names: tuple[str, ...]
    positional: tuple[str, ...]
    required: tuple[str, ...]
    further: bool
    variable: str
    place: str


Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, eq=False)
class PythonSource:
    """The names a file binds at module level.

    ``functions`` are those defined in the file itself, with how they run; ``definitions`` their texts;
    ``parameters`` what those of them take that nothing wraps or replaces; ``classes`` its classes; ``values``
    the expressions that names are assigned; ``imports`` the dotted names behind imported ones; ``names``
    whatever else is bound (imports, assignments); ``exported`` is ``__all__``, ``None`` where there is none
    that can be read; ``text`` its content.
    """

    functions: dict[str, RunMode]
    definitions: dict[str, Definition]
    parameters: dict[str, Parameters]
    classes: dict[str, ast.ClassDef]
    values: dict[str, ast.expr]
    imports: dict[str, str]
    names: frozenset[str]
    exported: tuple[str, ...] | None
    text: bytes

    @property
    def public(self) -> list[str]:
        """The functions that the file defines for others: those in ``__all__``, else those without ``_``."""
        if self.exported is not None:
            return [name for name in dict.fromkeys(self.exported) if name in self.functions]
        return [name for name in self.functions if not name.startswith("_")]

    @property
    def missing(self) -> list[str]:
        """The names in ``__all__`` that running the file surely does not bind."""
        return [name for name in dict.fromkeys(self.exported or ()) if not self.may_have(name)]

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
    definitions: dict[str, Definition] = {}
    classes: dict[str, ast.ClassDef] = {}
    values: dict[str, ast.expr] = {}
    imports: dict[str, str] = {}
    names: set[str] = set()
    for node in _own_scope(tree.body):
        if isinstance(node, _FUNCTIONS):
            functions[node.name] = _mode(node)
            definitions[node.name] = node
            if node.decorator_list:
                names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = node
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(_imported(node))
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        else:
            values.update(_assigned(node))
    parameters = {name: _parameters(found) for name, found in definitions.items() if name not in names}
    exported = _exported(tree.body)
    found = functions, definitions, parameters, classes, values, imports
    return PythonSource(*found, frozenset(names), exported, text)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that an import binds, each with the dotted name behind it."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            top = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif alias.name != "*":
            module = "." * node.level + (node.module or "")
            yield alias.asname or alias.name, f"{module}.{alias.name}"


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The one name that an assignment binds, with its value."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target, value = node.target, node.value
    elif _TYPE_ALIAS and isinstance(node, _TYPE_ALIAS):
        target, value = getattr(node, "name"), getattr(node, "value")  # noqa: B009 - Python 3.11 lacks them
    else:
        return
    if isinstance(target, ast.Name):
        yield target.id, value


def _exported(body: Iterable[ast.stmt]) -> tuple[str, ...] | None:
    """``__all__``, as far as it is made of literal lists."""
    found: tuple[str, ...] | None = None
    for node in body:
        if isinstance(node, ast.AugAssign):
            target, before = node.target, found or ()
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, before = node.targets[0], ()
        else:
            continue
        if isinstance(target, ast.Name) and target.id == "__all__":
            names = _strings(node.value)
            if names is None:
                return None
            found = (*before, *names)
    return found


def _strings(node: ast.expr) -> list[str] | None:
    if not isinstance(node, ast.List | ast.Tuple):
        return None
    texts = [item.value for item in node.elts if isinstance(item, ast.Constant)]
    names = [text for text in texts if isinstance(text, str)]
    return names if len(names) == len(node.elts) else None


def bound_names(tree: ast.Module) -> set[str]:
    """The names that running ``tree`` binds."""
    source = _describe(tree, b"")
    return {*source.functions, *source.classes, *source.names}


def _parameters(definition: Definition) -> Parameters:
    arguments = definition.args
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
        variable=arguments.vararg.arg if arguments.vararg is not None else "",
        place=f"line {definition.lineno}",
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
