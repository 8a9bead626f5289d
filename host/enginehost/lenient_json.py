"""JSON as people write it: JSON5, and what Gson's lenient reader takes besides.

Beyond JSON: comments (``//``, ``#``, ``/* */``), single quotes, bare words as names and values,
``=`` or ``=>`` for ``:``, ``;`` for ``,``, a comma at the end of a list or object, and the numbers and
escapes of JSON5. Infinity and NaN are refused: no face could pass them on.
"""

from __future__ import annotations

import re
from typing import Any

MAX_DEPTH = 64
"""How deep lists and objects may nest."""

# possessive for single characters only: before Python 3.11.5, a possessive group forgets what failed in it
_SPACE = re.compile(r"(?:[\s\ufeff]++|//[^\n\r]*+|#[^\n\r]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/)*")
_STRING = re.compile(r""""((?:[^"\\]|\\.)*+)"|'((?:[^'\\]|\\.)*+)'""", re.DOTALL)
_WORD = re.compile(r"""[^\s,:;=\[\]{}"'#/\\]++""")
_COLON = re.compile(r"=>|[:=]")
_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}")
_HEXADECIMAL = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]{1,1000})")
_FLOAT = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_NOT_FINITE = re.compile(r"[+-]?(?:Infinity|NaN)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)
_LINE_ENDS = ("\n", "\r", "\r\n", "\u2028", "\u2029")
_CONTROLS = {
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "0": "\0",
    **{c: c for c in "\"'/\\"},
}
_WORDS = {"true": True, "false": False, "null": None}


class LenientJsonError(ValueError):
    """The text cannot be read as JSON even with good will; ``position`` counts characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def loads(text: str) -> Any:
    """The value; :class:`LenientJsonError` with the position where it cannot be read."""
    reader = _Reader(text)
    value = reader.value(0)
    if reader.peek():
        raise reader.error("text behind the end of the value")
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def error(self, message: str) -> LenientJsonError:
        return LenientJsonError(message, min(self._at, len(self._text)))

    def peek(self) -> str:
        """The next character that counts; empty at the end."""
        space = _SPACE.match(self._text, self._at)
        if space is not None:
            self._at = space.end()
        return self._text[self._at : self._at + 1]

    def value(self, depth: int) -> Any:
        character = self.peek()
        if character in ("[", "{") and depth == MAX_DEPTH:
            raise self.error(f"lists and objects nest deeper than {MAX_DEPTH}")
        if character == "[":
            return self._list(depth + 1)
        if character == "{":
            return self._object(depth + 1)
        if character in ('"', "'"):
            return self._string()
        return self._bare_value()

    def _list(self, depth: int) -> list[Any]:
        self._at += 1
        items: list[Any] = []
        while self.peek() != "]":
            items.append(self.value(depth))
            self._separator("]")
        self._at += 1
        return items

    def _object(self, depth: int) -> dict[str, Any]:
        self._at += 1
        members: dict[str, Any] = {}
        while (character := self.peek()) != "}":
            name = self._string() if character in ('"', "'") else self._word("a name or '}'")
            self.peek()
            colon = _COLON.match(self._text, self._at)
            if colon is None:
                raise self.error("expected ':' behind a name")
            self._at = colon.end()
            members[name] = self.value(depth)
            self._separator("}")
        self._at += 1
        return members

    def _separator(self, end: str) -> None:
        character = self.peek()
        if character in (",", ";"):
            self._at += 1
        elif character != end:
            raise self.error(f"expected ',' or {end!r}")

    def _word(self, wanted: str) -> str:
        word = _WORD.match(self._text, self._at)
        if word is None:
            raise self.error(f"expected {wanted}")
        self._at = word.end()
        return word[0]

    def _bare_value(self) -> Any:
        start = self._at
        word = self._word("a value")
        if word.lower() in _WORDS:
            return _WORDS[word.lower()]
        if _INTEGER.fullmatch(word):
            return int(word)
        if hexadecimal := _HEXADECIMAL.fullmatch(word):
            return int(hexadecimal[1] + hexadecimal[2], 16)
        number = float(word) if _FLOAT.fullmatch(word) else 0.0
        if number in (float("inf"), float("-inf")) or _NOT_FINITE.fullmatch(word):
            self._at = start
            raise self.error(f"{word[:40]} is not a number that JSON has")
        return number if _FLOAT.fullmatch(word) else word

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self.error("a string without its closing quote")
        body = match[1] if match[1] is not None else match[2]
        text = self._unescape(body) if "\\" in body else body
        if not text.isascii():
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        self._at = match.end()
        return text

    def _unescape(self, body: str) -> str:
        try:
            return _ESCAPE.sub(_character, body)
        except LenientJsonError as error:
            self._at += 1 + error.position
            raise self.error(str(error)) from None


def _character(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped in _LINE_ENDS:
        return ""
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    if escaped not in _CONTROLS:
        # as Gson: an escape that nobody knows is what Java's reading of the file left of another one
        raise LenientJsonError("unknown escape in a string", match.start())
    return _CONTROLS[escaped]
