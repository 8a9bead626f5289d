"""On which line a place of a document stands. A second look at the text, for the few places that are told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from enginehost.errors import ConfigError
from enginehost_engines.openapi.faults import Pointer
from enginehost_engines.openapi.reading import events, is_json

_SIGN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]', re.DOTALL)

Wanted = dict[str, Any]
"""A tree of tokens; the member ``_LINE`` of a node holds its line once it is found."""

_LINE = "\0line"


def lines_of(text: str, name: str, pointers: Iterable[Pointer]) -> dict[Pointer, int]:
    """The line (from 1) of each place, or of what is nearest above it."""
    pointers = set(pointers)
    tree: Wanted = {_LINE: 1}
    for pointer in pointers:
        node = tree
        for token in pointer:
            node = node.setdefault(token, {})
    if any(pointers):
        with suppress(ConfigError, ValueError):  # it could be read before; what is found stays
            (_in_json if is_json(text, name) else _in_yaml)(text, name, tree)
    return {pointer: _nearest(tree, pointer) for pointer in pointers}


def _nearest(tree: Wanted, pointer: Pointer) -> int:
    line = 1
    for token in pointer:
        tree = tree[token]
        line = tree.get(_LINE, line)
    return line


class _Way:
    """Where a reader is: for each open list or object its node in the tree, the next key, and its kind."""

    def __init__(self, tree: Wanted) -> None:
        self._tree = tree
        self._open: list[tuple[Wanted | None, bool]] = []
        self._keys: list[str | int | None] = []

    @property
    def wants_key(self) -> bool:
        """Whether a text here names a member."""
        return bool(self._open) and not self._open[-1][1] and self._keys[-1] is None

    def key(self, text: str, line: int) -> None:
        self._keys[-1] = text
        node = self._open[-1][0]
        if node is not None and text in node:
            node[text].setdefault(_LINE, line)

    def _child(self, line: int) -> Wanted | None:
        if not self._open:
            return self._tree
        (node, is_list), key = self._open[-1], self._keys[-1]
        child = None if node is None else node.get(str(key))
        if child is not None and is_list:
            child.setdefault(_LINE, line)
        return child

    def begin(self, *, is_list: bool, line: int) -> None:
        self._open.append((self._child(line), is_list))
        self._keys.append(0 if is_list else None)

    def end(self) -> None:
        self._open.pop()
        self._keys.pop()
        self.value()

    def value(self, line: int = 0) -> None:
        """A value ended (``line``: it was a single one)."""
        if not self._open:
            return
        if line:
            self._child(line)
        key = self._keys[-1]
        self._keys[-1] = key + 1 if isinstance(key, int) else None


def _in_yaml(text: str, name: str, tree: Wanted) -> None:
    import yaml

    way = _Way(tree)
    for event in events(text, name):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.ScalarEvent):
            if way.wants_key:
                way.key(event.value, line)
            else:
                way.value(line)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            way.begin(is_list=isinstance(event, yaml.SequenceStartEvent), line=line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            way.end()
        elif isinstance(event, yaml.AliasEvent):
            way.value(line)


def _in_json(text: str, name: str, tree: Wanted) -> None:
    way, line = _Way(tree), 1
    empty = fresh = False  # an empty list has no item; a number or word is seen by what ends it
    for match in _SIGN.finditer(text):
        sign = match[0]
        if sign == "\n":
            line += 1
        elif sign in "{[":
            way.begin(is_list=sign == "[", line=line)
            empty, fresh = True, False
            continue
        elif sign in "}]":
            if not fresh and not empty:
                way.value(line)
            way.end()
            fresh, empty = True, False
        elif sign == ",":
            if not fresh:
                way.value(line)
            fresh = False
        elif sign == ":":
            fresh = False
        else:
            if way.wants_key:
                way.key(json.loads(sign), line)
            else:
                way.value(line)
                fresh = True
            line += sign.count("\n")
            empty = False
        if sign not in "\n":
            empty = False
