"""An smss file's bytes as a declaration: keys, values, places, and everything that is wrong with them.

Goes beyond Java's reading of property files only where that hurts people, each time with a warning.
Nothing here raises for what stands in a file: findings collect in :attr:`Declaration.diagnostics`.
"""

from __future__ import annotations

import json
import re
from collections.abc import KeysView, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from enginehost.decode import decode
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.file_findings import FileFindings
from enginehost.json_values import JsonText, read_json
from enginehost.keys import COMMON_KEYS, PUBLIC_KEYS
from enginehost.properties import Entry, scan
from enginehost.substitute import (
    MAX_LENGTH,
    Code,
    Sources,
    Substitution,
    is_one_placeholder,
    may_change,
    referenced_keys,
)

__all__ = ["Declaration", "Sources", "declare", "interpret"]

MAX_IDENTITY = 256
"""Longest id, class and name of an engine, in characters."""

_MOST_QUOTED = 60
"""Characters of a value that a message repeats."""

MAX_LINES = 50_000
"""Lines of a file; what has more is data."""

_LINE_END = re.compile(r"\r\n|\n|\r")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Declaration:
    """What one smss file says. Keys are given and answered in upper case.

    ``engine_id`` and ``alias`` (SEMOSS's ``<alias>`` part) are fixed at birth, from ``ENGINE`` and
    ``ENGINE_ALIAS`` or the file's name (``alias__id.smss``); everything else is read when asked for,
    so that :meth:`overlay` may come in between.
    """

    __slots__ = (
        "_entries",
        "_findings",
        "_sources",
        "_stored",
        "_substitution",
        "alias",
        "engine_id",
        "path",
    )

    def __init__(
        self, path: Path, entries: dict[str, Entry], sources: Sources, findings: FileFindings
    ) -> None:
        self.path = path
        self._findings = findings
        self._entries = entries
        self._sources = sources
        self._stored: frozenset[str] = frozenset()
        self._substitution: Substitution | None = None
        name = path.name.removesuffix(".smss") or path.name
        file_alias, _, file_id = name.rpartition("__")
        # what the file's name says is there first: ENGINE and ENGINE_ALIAS may ask for it (@ENGINE@)
        self.engine_id, self.alias = file_id or name, file_alias or name
        self.engine_id = self._identity("ENGINE") or self.engine_id
        self.alias = self._identity("ENGINE_ALIAS") or self.alias

    def _identity(self, key: str) -> str:
        text = self.words(key)
        if len(text) > MAX_IDENTITY:
            self.error(key, "bad-name", f"{key} is longer than {MAX_IDENTITY} characters")
        return text[:MAX_IDENTITY]

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What was found so far; at most a few hundred entries."""
        return self._findings.listed

    @property
    def has_enough_findings(self) -> bool:
        """Whether further warnings are dropped, so that nobody need think of a hint for them."""
        return self._findings.are_enough

    @property
    def display_name(self) -> str:
        """The name for people."""
        return self.words("ENGINE_ALIAS", "ENGINE_DISPLAY_NAME", "NAME")[:MAX_IDENTITY] or self.alias

    @property
    def engine_class(self) -> str:
        """What ``ENGINE_CLASS`` (SEMOSS: ``ENGINE_TYPE``) names; empty when absent or blank."""
        return self.words("ENGINE_CLASS", "ENGINE_TYPE")[:MAX_IDENTITY]

    @property
    def unique_name(self) -> str:
        """``<alias>__<id>``: SEMOSS's name for the engine and its folder."""
        return f"{self.alias}__{self.engine_id}"

    @property
    def has_errors(self) -> bool:
        """Whether something was found for which the engine must not open."""
        return self._findings.has_errors

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
        """The first value of these keys that is not blank, without blanks around it; else ``""``.

        A secret in a key that callers read counts as blank.
        """
        for key in keys:
            if key in self._entries and (words := (self.text(key) or "").strip()):
                if key in PUBLIC_KEYS and self.takes_secret(key):
                    continue
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
        if len(entry.value) > MAX_LENGTH:
            self.error(key, "value-too-long", f"{key} is longer than {MAX_LENGTH} characters")
            return None
        if is_one_placeholder(entry.value):
            text = self._filler().text(key, entry.value)
            if not text.strip() or (text == entry.value and self.has_errors):
                return None
            return read_json(JsonText(key, text, text), self._json_finding)
        value = read_json(JsonText(key, entry.value, entry.raw), self._json_finding)
        return self._filled(key, value) if may_change(entry.value) else value

    def code(self, key: str) -> Code:
        """The value of a key that holds Python; empty when it is absent."""
        entry = self._entries.get(key)
        if entry is None or not may_change(entry.value):
            return Code(entry.value if entry else "")
        return self._filler().code(key, entry.value)

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

    def is_unresolved(self, key: str) -> bool:
        """Whether the value, once read, could not be filled in whole, so that nothing can be said of it."""
        return self._substitution is not None and key in self._substitution.failed

    def quote(self, key: str) -> str:
        """The value to stand at the end of a message; empty where that may not show it."""
        text = self.words(key)
        if not text or not self.location(key)[0] or self.is_confidential(key):
            return ""
        return f", not {text if len(text) <= _MOST_QUOTED else f'{text[:_MOST_QUOTED]}…'!r}"

    def takes_secret(self, key: str) -> bool:
        """Whether the value holds a secret: ``${secret:…}``, or a variable or key with a telling name."""
        entry = self._entries.get(key)
        if entry is None or "${" not in entry.value:
            return False
        self.text(key)
        return key in self._filler().secret

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
        """Add an error at ``key``: the engine does not open. ``message`` may quote :meth:`quote` only."""
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
        self._findings.add(self.location(key), severity, code, message, hint)

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
        self._findings.add(place, severity, code, f"{text.key}: {message}", hint)

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
            self._substitution.confidential.update(self._stored)
            self._substitution.secret.update(self._stored.difference(COMMON_KEYS))
        return self._substitution

    def _template(self, key: str) -> str | None:
        entry = self._entries.get(key)
        return entry and entry.value


def interpret(data: bytes, path: Path, sources: Sources | None = None) -> Declaration:
    """Read the bytes of the smss file at ``path``. Never raises: see :attr:`Declaration.diagnostics`."""
    where = str(path)
    text, found = decode(data, where)
    findings = FileFindings(where, found)
    scanned, malformed = scan(_first_lines(text, findings))
    for line, column, key in malformed:
        message = rf"{key}: \u must be followed by four hexadecimal digits"
        hint = r"a backslash is an escape here: write / or \\ instead, as in C:/users or C:\\users"
        findings.add((line, column), Severity.ERROR, "malformed-escape", message, hint)
    return Declaration(path, _by_key(scanned, findings), sources or Sources(), findings)


def declare(properties: Mapping[str, str], path: Path) -> Declaration:
    """A declaration of keys whose values are filled in already (:meth:`Declaration.properties`)."""
    texts = {key.upper(): value.replace("${", "$${") for key, value in properties.items()}
    entries = {key: Entry(key, text, text, 0, 0, 0, 0) for key, text in texts.items()}
    return Declaration(path, entries, Sources(), FileFindings(str(path), []))


def _first_lines(text: str, findings: FileFindings) -> str:
    if text.count("\n") + text.count("\r") <= MAX_LINES:
        return text
    end = next(islice(_LINE_END.finditer(text), MAX_LINES, None), None)
    if end is None:
        return text
    message = f"the file has more than {MAX_LINES} lines; the others are not read"
    findings.add((MAX_LINES + 1, 1), Severity.ERROR, "too-many-lines", message, "is it data?")
    return text[: end.start()]


def _by_key(scanned: list[Entry], findings: FileFindings) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for written in scanned:
        key, entry = written.key.upper(), written
        if not (key.isascii() and entry.value.isascii()):
            key, entry = _without_lone_surrogates(key, entry, findings)
        if key in entries:
            first = entries[key].line
            message = f"{key} stands in line {first} and again in line {entry.line}; the last one counts"
            place = (entry.line, entry.column)
            findings.add(place, Severity.WARNING, "duplicate-key", message, "delete one of the two")
        entries[key] = entry
    return entries


def _without_lone_surrogates(key: str, entry: Entry, findings: FileFindings) -> tuple[str, Entry]:
    if not _LONE_SURROGATE.search(key + entry.value):
        return key, entry
    key, value = (_LONE_SURROGATE.sub("\ufffd", text) for text in (key, entry.value))
    message = f"{key} holds half of a character (a lone surrogate); it becomes U+FFFD"
    hint = r"write both halves, as in \ud83d\ude00, or the character itself"
    findings.add((entry.line, entry.column), Severity.WARNING, "lone-surrogate", message, hint)
    return key, entry._replace(value=value)
