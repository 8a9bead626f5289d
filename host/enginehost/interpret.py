"""An smss file's bytes as a declaration: keys, values, places, and everything that is wrong with them.

Goes beyond Java's reading of property files only where that hurts people, each time with a warning.
Nothing here raises for what stands in a file: findings collect in :attr:`Declaration.diagnostics`.
"""

from __future__ import annotations

import json
import re
from collections.abc import KeysView, Mapping
from pathlib import Path
from typing import Any

from enginehost.decode import decode
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.json_values import JsonText, read_json
from enginehost.properties import Entry, scan
from enginehost.substitute import Sources, Substitution, is_one_placeholder, may_change, referenced_keys

__all__ = ["Declaration", "Sources", "interpret"]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Declaration:
    """What one smss file says. Keys are given and answered in upper case.

    ``engine_id`` and ``alias`` (SEMOSS's ``<alias>`` part) are fixed at birth, from ``ENGINE`` and
    ``ENGINE_ALIAS`` or the file's name (``alias__id.smss``); everything else is read when asked for,
    so that :meth:`overlay` may come in between.
    """

    __slots__ = (
        "_entries",
        "_sources",
        "_stored",
        "_substitution",
        "alias",
        "diagnostics",
        "engine_id",
        "path",
    )

    def __init__(
        self, path: Path, entries: dict[str, Entry], sources: Sources, found: list[Diagnostic]
    ) -> None:
        self.path = path
        self.diagnostics = found
        self._entries = entries
        self._sources = sources
        self._stored: frozenset[str] = frozenset()
        self._substitution: Substitution | None = None
        name = path.name.removesuffix(".smss") or path.name
        file_alias, _, file_id = name.rpartition("__")
        self.engine_id = self.words("ENGINE") or file_id or name
        self.alias = self.words("ENGINE_ALIAS") or file_alias or name

    @property
    def display_name(self) -> str:
        """The name for people."""
        return self.words("ENGINE_ALIAS", "ENGINE_DISPLAY_NAME", "NAME") or self.alias

    @property
    def engine_class(self) -> str:
        """What ``ENGINE_CLASS`` (SEMOSS: ``ENGINE_TYPE``) names; empty when absent or blank."""
        return self.words("ENGINE_CLASS", "ENGINE_TYPE")

    @property
    def unique_name(self) -> str:
        """``<alias>__<id>``: SEMOSS's name for the engine and its folder."""
        return f"{self.alias}__{self.engine_id}"

    @property
    def has_errors(self) -> bool:
        """Whether something was found for which the engine must not open."""
        return any(found.severity is Severity.ERROR for found in self.diagnostics)

    def keys(self) -> KeysView[str]:
        """The keys of the file and its overlay, in file order."""
        return self._entries.keys()

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def text(self, key: str) -> str | None:
        """The value with everything filled in; ``None`` when the key is absent."""
        entry = self._entries.get(key)
        if entry is None or not may_change(entry.value):
            return entry and entry.value
        return self._filler().text(key, entry.value)

    def words(self, *keys: str) -> str:
        """The first value of these keys that is not blank, without blanks around it; else ``""``."""
        for key in keys:
            if key in self._entries and (words := (self.text(key) or "").strip()):
                return words
        return ""

    def json(self, key: str) -> Any:
        """The value of a JSON-valued key; ``None`` when it is absent, blank, ``null`` or no JSON (an error).

        Values are filled in after the JSON is read, on its strings, so that no value can break or
        inject. A text that is nothing but one ``${…}`` is the exception: what it stands for is the JSON.
        """
        entry = self._entries.get(key)
        if entry is None or not entry.value.strip():
            return None
        if is_one_placeholder(entry.value):
            text = self._filler().text(key, entry.value)
            if not text.strip() or (text == entry.value and self.has_errors):
                return None
            return read_json(JsonText(key, text, text), self._json_finding)
        value = read_json(JsonText(key, entry.value, entry.raw), self._json_finding)
        return self._filled(key, value) if may_change(entry.value) else value

    def properties(self) -> dict[str, str]:
        """All keys with their filled-in texts."""
        return {
            key: self._filler().text(key, entry.value) if may_change(entry.value) else entry.value
            for key, entry in self._entries.items()
        }

    def location(self, key: str) -> tuple[int, int]:
        """Line and column of the key; ``(0, 0)`` when the file does not have it."""
        entry = self._entries.get(key)
        return (entry.line, entry.column) if entry else (0, 0)

    def referenced(self) -> set[str]:
        """The keys that other values take in (``${KEY}``)."""
        values = [entry.value for entry in self._entries.values() if "${" in entry.value]
        return set[str]().union(*map(referenced_keys, values)) if values else set()

    def is_confidential(self, key: str) -> bool:
        """Whether the value comes, in part, from outside the file; no message may show it."""
        if key in self._stored:
            return True
        self.text(key)
        return self._substitution is not None and key in self._substitution.confidential

    def overlay(self, stored: Mapping[str, Any]) -> None:
        """Put a secret store's values over the file's, before anything else is read.

        They count as the file's own text, so ``${KEY}`` in them is filled; values that are not text
        become JSON.
        """
        texts = {
            key.upper(): value if isinstance(value, str) else json.dumps(value)
            for key, value in stored.items()
        }
        for key, value in texts.items():
            line, column = self.location(key)
            self._entries[key] = Entry(key, value, value, line, column, line, column)
        self._stored = frozenset(texts)
        self._substitution = None

    def error(self, key: str, code: str, message: str, hint: str = "") -> None:
        """Add an error at ``key``: the engine does not open. ``message`` must not hold a value's text."""
        self._report(key, Severity.ERROR, code, message, hint)

    def warning(self, key: str, code: str, message: str, hint: str = "") -> None:
        """Add a warning at ``key``."""
        self._report(key, Severity.WARNING, code, message, hint)

    def require(self, *keys: str, hint: str = "") -> str:
        """The first value of these keys that is not blank; an error names the first key if there is none."""
        words = self.words(*keys)
        if not words:
            present = next((key for key in keys if key in self._entries), None)
            problem = "is blank" if present else "is missing"
            code = "blank-key" if present else "missing-key"
            self.error(present or keys[0], code, f"the key {present or keys[0]} {problem}", hint)
        return words

    def _report(self, key: str, severity: Severity, code: str, message: str, hint: str) -> None:
        self._add(self.location(key), severity, code, message, hint)

    def _add(self, place: tuple[int, int], severity: Severity, code: str, message: str, hint: str) -> None:
        found = Diagnostic(str(self.path), *place, severity, code, message, hint)
        if found not in self.diagnostics:
            self.diagnostics.append(found)

    def _json_finding(
        self,
        text: JsonText,
        severity: Severity,
        code: str,
        message: str,
        hint: str,
        offset: int,
        in_raw: bool,
    ) -> None:
        entry = self._entries[text.key]
        if text.key in self._stored or text.raw != entry.raw:
            place = self.location(text.key)
        else:
            place = entry.locate_raw(offset) if in_raw else entry.locate(offset)
        self._add(place, severity, code, f"{text.key}: {message}", hint)

    def _filled(self, key: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._filler().expand(key, value) if may_change(value) else value
        if isinstance(value, list):
            return [self._filled(key, item) for item in value]
        if isinstance(value, dict):
            return {name: self._filled(key, member) for name, member in value.items()}
        return value

    def _filler(self) -> Substitution:
        if self._substitution is None:
            self._substitution = Substitution(
                self._template,
                self._sources,
                folder=self.path.parent,
                unique_name=lambda: self.unique_name,
                report=self._report,
            )
        return self._substitution

    def _template(self, key: str) -> str | None:
        entry = self._entries.get(key)
        return entry and entry.value


def interpret(data: bytes, path: Path, sources: Sources | None = None) -> Declaration:
    """Read the bytes of the smss file at ``path``. Never raises: see :attr:`Declaration.diagnostics`."""
    where = str(path)
    text, found = decode(data, where)
    scanned, malformed = scan(text)
    for line, column, key in malformed:
        message = rf"{key}: \u must be followed by four hexadecimal digits"
        hint = r"a backslash is an escape here: write / or \\ instead, as in C:/users or C:\\users"
        found.append(Diagnostic(where, line, column, Severity.ERROR, "malformed-escape", message, hint))
    return Declaration(path, _by_key(scanned, where, found), sources or Sources(), found)


def _by_key(scanned: list[Entry], where: str, found: list[Diagnostic]) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for written in scanned:
        key, entry = written.key.upper(), written
        if not (key.isascii() and entry.value.isascii()):
            key, entry = _without_lone_surrogates(key, entry, where, found)
        if key in entries:
            first = entries[key].line
            message = f"{key} stands in line {first} and again in line {entry.line}; the last one counts"
            place = (entry.line, entry.column)
            hint = "delete one of the two"
            found.append(Diagnostic(where, *place, Severity.WARNING, "duplicate-key", message, hint))
        entries[key] = entry
    return entries


def _without_lone_surrogates(
    key: str, entry: Entry, where: str, found: list[Diagnostic]
) -> tuple[str, Entry]:
    if not _LONE_SURROGATE.search(key + entry.value):
        return key, entry
    key, value = (_LONE_SURROGATE.sub("\ufffd", text) for text in (key, entry.value))
    message = f"{key} holds half of a character (a lone surrogate); it becomes U+FFFD"
    hint = r"write both halves, as in \ud83d\ude00, or the character itself"
    place = (entry.line, entry.column)
    found.append(Diagnostic(where, *place, Severity.WARNING, "lone-surrogate", message, hint))
    return key, entry._replace(value=value)
