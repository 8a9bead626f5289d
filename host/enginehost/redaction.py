"""Takes secrets that were resolved out of texts: logs, error messages."""

from __future__ import annotations

import base64
import html
import re
import string
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

MIN_LENGTH = 4
"""Shorter values are not looked for: they would hit ordinary text."""

MASK = "***"

_SHORTEST_ENCODED = 8
"""Bytes from which on a secret is looked for in base64 too."""

_MOST_ENCODED = 8192
_BITS = 6
"""Those of a character of base64."""

_BASE64 = frozenset(string.ascii_letters + string.digits + "+/-_")

_SHORTEST_LINE = 16
"""Characters from which on a line of a secret is one: of a private key each has 64."""

_MOST_LINES = 1000
_BACKSLASH = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}"
    r"|.)",
    re.DOTALL,
)
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")
_UNFINISHED = re.compile(
    r"(?:(?:\\+u[dD][89abAB][0-9a-fA-F]{2})?\\+(?:[uUx][0-9a-fA-F]{0,7})?"
    r"|(?:%[c-fC-F][0-9a-fA-F](?:%[89abAB][0-9a-fA-F]){0,2})?(?:%[0-9a-fA-F]?)?|&[#\w]{0,8})\Z"
)
_LONGEST_ESCAPE = 40
_PAIR = len(r"u1234\u5678")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}


_URL = re.compile(r"(?<=://)[^\s\"'<>]++")
"""What stands after the two slashes of a URL, to the end of the word; read once, whatever it holds."""
_PATH_AFTER_PORT = re.compile(r"\d{0,5}[/?#,;)\]}]")
_PORT = re.compile(rf"{_PATH_AFTER_PORT.pattern}|\d{{0,5}}\Z")
_TELLING_QUERY = re.compile(
    r"(?i)([?&](?=[\w.-]*(?:password|passwd|secret|token|api[_-]?key))[\w.-]{1,60}=)[^&\s\"'<>#]++"
)


def without_url_passwords(text: str) -> str:
    """``text`` with the passwords of all URLs masked: those before the host's name, and of their queries."""
    if "://" not in text:
        return text
    if "@" in text:
        text = _URL.sub(lambda found: _masked_password(found[0]), text)
    return _TELLING_QUERY.sub(rf"\1{MASK}", text)


def _masked_password(rest: str) -> str:
    """Up to the last ``@``: that a password with a bare ``/`` or ``@`` makes no URL hides none of it."""
    before, at, after = rest.rpartition("@")
    urls = before.split("://") if at else []
    for number, url in enumerate(urls, 1):
        user, _, password = url.partition(":")
        port = _PORT.match(password) if number < len(urls) else _PATH_AFTER_PORT.match(password)
        if password and "/" not in user and not port:
            return "://".join([*urls[: number - 1], f"{user}:{MASK}@{after}"])
    return rest


class Redactor:
    """Replaces every known secret in a text by ``***``, and the passwords of URLs.

    A secret is also found as JSON, a repr, HTML or a URL spells it, and within base64; and where the end
    of the text cuts it. The time does not grow with the number of secrets: they are found by their first
    four characters. Usable from any thread.
    """

    def __init__(self) -> None:
        self._by_prefix: dict[str, dict[int, set[str]]] = {}
        """All forms: by their first characters, then by length."""
        self._forms: set[str] = set()
        self._in_base64: dict[str, tuple[bool, bool]] = {}
        """Those in base64: whether the character before one, and that after it, has bits of the secret."""
        self._sorted: list[str] = []
        """The forms as they were when a text last ended in what may be a part of one."""

    def add(self, value: str) -> None:
        """Look for ``value`` from now on, if it is long enough; for its longer lines too.

        (What a function prints arrives line by line.)
        """
        self._add(value)
        for line in value.splitlines()[:_MOST_LINES] if "\n" in value else ():
            if len(line.strip()) >= _SHORTEST_LINE:
                self._add(line.strip())

    def _add(self, value: str) -> None:
        if len(value) >= MIN_LENGTH:
            encoded = dict(_in_base64(value))
            self._in_base64.update(encoded)
            for form in {value, value.replace(" ", "+"), *_as_latin(value), *encoded} - self._forms:
                by_length = self._by_prefix.setdefault(form[:MIN_LENGTH], {})
                by_length.setdefault(len(form), set()).add(form)
                self._forms.add(form)

    def __call__(self, text: str) -> str:
        """``text`` without secrets. Overlapping ones become one mask."""
        text = without_url_passwords(text)
        if not self._forms or len(text) < MIN_LENGTH:
            return text
        parts: list[str] = []
        done = 0
        for start, end in _joined(self._spans(text)):
            parts += (text[done:start], MASK)
            done = end
        return "".join((*parts, text[done:])) if parts else text

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        for view in _views(text):
            yield from self._spans_in(view)
        # an escape that the end of the text cuts is no character: the secret ends before it
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_ESCAPE))
        if unfinished is not None and unfinished.start():
            for view in _views(text[: unfinished.start()]):
                for start, end in self._spans_in(view):
                    yield start, len(text) if end == unfinished.start() else end

    def _spans_in(self, view: _View) -> Iterator[tuple[int, int]]:
        text, by_prefix = view.text, self._by_prefix
        if 4 * len(by_prefix) < len(text) and not any(prefix in text for prefix in tuple(by_prefix)):
            return
        covered = 0
        for at in range(len(text) - MIN_LENGTH + 1):
            by_length = by_prefix.get(text[at : at + MIN_LENGTH])
            if by_length is None:
                continue
            lengths = tuple(by_length.items())
            end = max((at + n for n, forms in lengths if text[at : at + n] in forms), default=0)
            if at + max(by_length) > len(text) > covered and self._begins_a_form(text[at:]):
                end = len(text)
            if end > covered:
                covered = end
                first, last = self._with_edges(text, at, end)
                yield view.place(first), view.place(last)

    def _with_edges(self, text: str, start: int, end: int) -> tuple[int, int]:
        """Where a form in base64 begins and ends with the characters that it shares with its neighbours."""
        before, after = self._in_base64.get(text[start:end], (False, False))
        if before and start and text[start - 1] in _BASE64:
            start -= 1
        if after and end < len(text) and text[end] in _BASE64:
            end += 1
            end += len(text[end : end + 2]) - len(text[end : end + 2].lstrip("="))
        return start, end

    def _begins_a_form(self, tail: str) -> bool:
        if len(self._sorted) != len(self._forms):
            self._sorted = sorted(self._forms)
        ordered = self._sorted
        place = bisect_left(ordered, tail)
        return place < len(ordered) and ordered[place].startswith(tail)


_Decode = Callable[[str], Iterable[tuple[str, int]]]
"""Gives the characters that an escape stands for, each with its offset in the escape."""


class _View(NamedTuple):
    """A text with one language's escapes undone. ``starts``: where each of its characters began."""

    text: str
    starts: list[int] | None = None

    def place(self, at: int) -> int:
        """The offset in the text as it stands."""
        return at if self.starts is None else self.starts[at]

    def undone(self, sign: str, pattern: re.Pattern[str], decode: _Decode) -> _View:
        """The view without the escapes of ``pattern``, which begin with ``sign``; itself without any."""
        text = self.text
        if sign not in text:
            return self
        places = self.starts or range(len(text) + 1)
        pieces: list[str] = []
        starts: list[int] = []
        done = 0
        for match in pattern.finditer(text):
            pieces.append(text[done : match.start()])
            starts += places[done : match.start()]
            for character, offset in decode(match[0]):
                pieces.append(character)
                starts.append(places[match.start() + offset])
            done = match.end()
        if not done:
            return self
        pieces.append(text[done:])
        starts += places[done:]
        return _View("".join(pieces), starts)


def _views(text: str) -> Iterator[_View]:
    """The text as it stands, and with the escapes undone that it may hold."""
    whole = _View(text)
    yield whole
    for first in _LANGUAGES:
        view = whole
        for language in (first, first, first, *_LANGUAGES):
            changed = view.undone(*language)
            if changed is not view:
                view = changed
                yield view


def _backslash(escape: str) -> list[tuple[str, int]]:
    body = escape[1:]
    if len(body) == _PAIR:  # the two halves of one character
        high, low = int(body[1:5], 16), int(body[7:], 16)
        return [(chr(0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00), 0)]
    if len(body) > 1:
        number = int(body[1:], 16)
        return [(chr(number), 0)] if number < 0x110000 else []
    return [(_CONTROLS.get(body, body), 0)]


def _percent(escapes: str) -> list[tuple[str, int]]:
    data = bytes.fromhex(escapes.replace("%", ""))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return [(chr(byte), 3 * place) for place, byte in enumerate(data)]
    found: list[tuple[str, int]] = []
    at = 0
    for character in text:
        found.append((character, at))
        at += 3 * len(character.encode())
    return found


def _entity(entity: str) -> list[tuple[str, int]]:
    text = html.unescape(entity)
    known = text != entity
    return [(character, 0 if known else place) for place, character in enumerate(text)]


_LANGUAGES: tuple[tuple[str, re.Pattern[str], _Decode], ...] = (
    ("\\", _BACKSLASH, _backslash),
    ("%", _PERCENT, _percent),
    ("&", _ENTITY, _entity),
)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order, those that overlap or touch made one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _as_latin(value: str) -> Iterator[str]:
    """The value as the repr of its bytes has it."""
    if not value.isascii():
        yield value.encode("utf-8", "surrogatepass").decode("latin-1")


def _in_base64(value: str) -> Iterator[tuple[str, tuple[bool, bool]]]:
    """What base64 makes of a value, wherever it begins: the characters in which no neighbour has a part.

    With each, whether there is a character before it, and after it, in which both have one.
    """
    data = value.encode("utf-8", "surrogatepass")
    if not _SHORTEST_ENCODED <= len(data) <= _MOST_ENCODED:
        return
    for before in range(3):
        bits = 8 * before, 8 * (before + len(data))
        first, last = -(-bits[0] // _BITS), bits[1] // _BITS
        edges = bits[0] % _BITS > 0, bits[1] % _BITS > 0
        text = base64.b64encode(bytes(before) + data).decode()[first:last]
        yield text, edges
        yield text.replace("+", "-").replace("/", "_"), edges
