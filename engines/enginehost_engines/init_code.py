"""``INIT_FUNCTION_ENGINE``: statements that run after a script, as Python compiles them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from types import CodeType

NAME = "INIT_FUNCTION_ENGINE"


def init_commands(init: str, texts: Mapping[str, str]) -> list[CodeType]:
    """The statements compiled: the whole as it stands if that is Python, else one between each ``;``.

    ``texts`` are put where their names stand (see :class:`enginehost.substitute.Code`): inside a string
    as a part of it; alone as the number or the literal that they write, else as a string. Raises
    :class:`SyntaxError` and :class:`ValueError`, also for a name where no text can stand.
    """
    return [compile(_filled(tree, texts), NAME, "exec") for tree in init_trees(init)]


def init_trees(init: str) -> list[ast.Module]:
    """The statements parsed. Raises as :func:`init_commands` does."""
    try:
        return [ast.parse(init, NAME)]
    except SyntaxError:
        pieces = (piece.strip() for piece in init.split(";"))
        return [ast.parse(piece, NAME) for piece in pieces if piece]


def _filled(tree: ast.Module, texts: Mapping[str, str]) -> ast.Module:
    if not texts:
        return tree
    _Filler(texts).visit(tree)
    if any(name in word for word in _words(tree) for name in texts):
        raise ValueError("a value from outside the file stands where only a name can")
    return tree


class _Filler(ast.NodeTransformer):
    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._name = re.compile("|".join(map(re.escape, texts)))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._texts or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.Constant(_literal(self._texts[node.id])), node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            node.value = self._in(node.value)
        elif isinstance(node.value, bytes):
            node.value = self._in(node.value.decode("latin-1"), "latin-1").encode("latin-1")
        return node

    def _in(self, text: str, encoding: str = "") -> str:
        """``text`` with the texts in it; as bytes in ``encoding`` they are UTF-8."""

        def of(match: re.Match[str]) -> str:
            found = self._texts[match[0]]
            return found.encode().decode(encoding) if encoding else found

        return self._name.sub(of, text)


def _literal(text: str) -> str | bytes | int | float | complex | bool | None:
    """The value of a number, string, ``True``, ``False`` or ``None``; any other text is itself."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        value = ast.literal_eval(node)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return text
    return value if value is None or isinstance(value, (str, bytes, int, float, complex)) else text


def _words(tree: ast.AST) -> Iterator[str]:
    """Every identifier of a tree."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant):
            for _, value in ast.iter_fields(node):
                yield from (
                    word for word in (value if isinstance(value, list) else [value]) if isinstance(word, str)
                )
