r"""Java property files, read exactly as ``java.util.Properties.load(Reader)`` reads them, with positions.

The rules were taken from OpenJDK 17 and are checked against a running JVM:

* key and value are parted by ``=``, ``:`` or blanks (blank, tab, form feed); one ``=`` or ``:`` is consumed;
* ``#`` and ``!`` begin a comment where they are the first character of a line that is not a blank;
* an odd number of backslashes at the end of a line continues it; LF, CR and CRLF end a line;
* ``\t``, ``\n``, ``\r``, ``\f`` and ``\uXXXX`` are escapes; a backslash before anything else vanishes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import islice
from typing import NamedTuple

_PLAIN_LINE = re.compile(r"[ \t\f]*+(?:[#!]|(?=.)([^=: \t\f]*+)[ \t\f]*+[=:]?[ \t\f]*+(.*))", re.DOTALL)
_ESCAPED_LINE = re.compile(r"((?:[^\\=: \t\f]|\\.)*+)[ \t\f]*+[=:]?[ \t\f]*+(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_MALFORMED = 1000
"""Malformed escapes that are told; more help nobody."""

_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Break(NamedTuple):
    """Where one line's part of a continued value begins: ``offset`` in the raw value, then the place."""

    offset: int
    line: int
    column: int


class Entry(NamedTuple):
    """One key with its value.

    ``raw`` is the value with lines joined and escapes as they stand in the file. Lines and columns
    count from 1, columns in characters. ``breaks`` is empty unless the value runs over several lines.
    """

    key: str
    value: str
    raw: str
    line: int
    column: int
    value_line: int
    value_column: int
    breaks: tuple[Break, ...] = ()

    def locate(self, offset: int) -> tuple[int, int]:
        """Line and column of the character at ``offset`` of ``value``."""
        return self.locate_raw(offset if self.raw == self.value else _raw_offset(self.raw, offset))

    def locate_raw(self, offset: int) -> tuple[int, int]:
        """Line and column of the character at ``offset`` of ``raw``."""
        part = Break(0, self.value_line, self.value_column)
        for candidate in self.breaks:
            if candidate.offset > offset:
                break
            part = candidate
        return part.line, part.column + offset - part.offset


class MalformedEscape(NamedTuple):
    r"""A ``\u`` without four hexadecimal digits behind it, for which Java refuses the whole file."""

    line: int
    column: int
    key: str


class PropertiesError(ValueError):
    """The text is no property file; ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"{message} (line {line}, column {column})")
        self.line = line
        self.column = column


def parse(text: str) -> list[Entry]:
    r"""All entries in file order, duplicates included. A malformed ``\u`` raises :class:`PropertiesError`."""
    entries, malformed = scan(text)
    if malformed:
        raise PropertiesError(r"malformed \uXXXX escape", malformed[0].line, malformed[0].column)
    return entries


def load(text: str) -> dict[str, str]:
    """The map that Java would hold: of several equal keys the last counts."""
    return {entry.key: entry.value for entry in parse(text)}


def scan(text: str) -> tuple[list[Entry], list[MalformedEscape]]:
    """Like :func:`parse`, but goes on behind a malformed escape, which stays in the value as it is."""
    lines = _lines(text)
    entries: list[Entry] = []
    malformed: list[MalformedEscape] = []
    index, count = 0, len(lines)
    while index < count:
        line = lines[index]
        if "\\" in line:
            index = _escaped(lines, index, entries, malformed)
            continue
        index += 1
        match = _PLAIN_LINE.match(line)
        if match is None:
            continue
        key, value = match.groups()
        if key is not None:
            entries.append(Entry(key, value, value, index, match.start(1) + 1, index, match.start(2) + 1))
    return entries, malformed


def _lines(text: str) -> list[str]:
    if not text.isascii():
        text = _joined_surrogates(text)
    if "\r" in text:
        # Java sees the LF of a final CRLF as something that follows, a lone final LF not
        more = " " if text.endswith("\r\n") else ""
        text = text.replace("\r\n", "\n").replace("\r", "\n") + more
    return text.split("\n")


def _escaped(lines: list[str], index: int, entries: list[Entry], malformed: list[MalformedEscape]) -> int:
    """Read the logical line at ``index``, which may hold backslashes; the index behind it."""
    text, parts, index = _logical_line(lines, index)
    match = _ESCAPED_LINE.fullmatch(text or "")
    if text is None or match is None:
        return index
    raw_key, raw = match.groups()
    line, column = _place(parts, 0)
    value_start = match.start(2)
    value_line, value_column = _place(parts, value_start)
    breaks = tuple(Break(p.offset - value_start, p.line, p.column) for p in parts if p.offset > value_start)
    key, value = _unescape(raw_key), _unescape(raw)
    entries.append(Entry(key, value, raw, line, column, value_line, value_column, breaks))
    for start, piece in ((0, raw_key), (value_start, raw)) if len(malformed) < _MOST_MALFORMED else ():
        malformed += [MalformedEscape(*_place(parts, start + at), key) for at in _malformed_offsets(piece)]
    return index


def _logical_line(lines: list[str], index: int) -> tuple[str | None, list[Break], int]:
    """The joined text (``None``: a comment or nothing), where its parts stand, the index behind it."""
    pieces: list[str] = []
    parts: list[Break] = []
    length = 0
    while True:
        line = lines[index]
        index += 1
        body = line.lstrip(" \t\f")
        if not length and body[:1] in ("#", "!", ""):
            return None, [], index
        parts.append(Break(length, index, len(line) - len(body) + 1))
        continues = (len(body) - len(body.rstrip("\\"))) % 2 == 1
        pieces.append(body[:-1] if continues else body)
        length += len(pieces[-1])
        at_end = index == len(lines) or (index == len(lines) - 1 and not lines[index])
        if not continues or at_end:
            return "".join(pieces), parts, index
        if not length:
            # Java has forgotten a line of nothing but its backslash: a comment may follow
            parts.clear()


def _offset(part: Break) -> int:
    return part.offset


def _place(parts: list[Break], offset: int) -> tuple[int, int]:
    part = parts[bisect_right(parts, offset, key=_offset) - 1]
    return part.line, part.column + offset - part.offset


def _unescape(raw: str) -> str:
    value = _ESCAPE.sub(_character, raw) if "\\" in raw else raw
    return value if value.isascii() else _joined_surrogates(value)


def _character(match: re.Match[str]) -> str:
    escaped = match[1]
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    return match[0] if escaped == "u" else _CONTROLS.get(escaped, escaped)


def _malformed_offsets(raw: str) -> list[int]:
    if "\\u" not in raw:
        return []
    found = (match.start() for match in _ESCAPE.finditer(raw) if match[1] == "u")
    return list(islice(found, _MOST_MALFORMED))


def _raw_offset(raw: str, offset: int) -> int:
    """The offset in ``raw`` of the character that became number ``offset`` of the value."""
    shift = 0
    for match in _ESCAPE.finditer(raw):
        if match.start() - shift >= offset:
            break
        shift += len(match[0]) - len(_character(match))
    return min(offset + shift, len(raw))


def _joined_surrogates(text: str) -> str:
    """Java's text is UTF-16: two halves that meet are one character."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
