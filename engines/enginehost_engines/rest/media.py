"""What kind of content an answer has, and how its bytes are text."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

from enginehost.errors import ConfigError, ExecutionFailed

_TEXT_TYPES = frozenset(
    [
        "application/xml",
        "application/javascript",
        "application/ecmascript",
        "application/x-www-form-urlencoded",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/graphql",
        "application/sql",
        "application/rtf",
        "application/json-seq",
        "image/svg+xml",
    ]
)
_TEXT_SUFFIXES = ("+xml", "+yaml", "+json-seq")

_JSON_LINES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)

_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "undefined"})
"""Codecs for text that are no charsets; some take for ever."""

_SAID_INSIDE = re.compile(
    rb"""(?i)\A\s*<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)|<meta\s[^>]*?charset\s*=\s*["']?([\w.:-]+)"""
)
_INSIDE = 1024
"""In so many bytes a document has to say its charset (HTML Standard, 4.2.5)."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class MediaType:
    """A ``Content-Type`` taken apart: ``essence`` in lower case, ``charset`` a codec that Python has.

    ``own`` is what the file says of the charset; it goes before the header. ``unknown``: a charset that
    the header names and nobody knows; UTF-8 is tried then.
    """

    __slots__ = ("_is_named", "charset", "essence", "unknown")

    def __init__(self, header: str, own: str | None = None) -> None:
        essence, _, parameters = header.partition(";")
        self.essence = essence.strip().lower()
        named = own or _charset(parameters)
        self._is_named = bool(named)
        found = codec(named) if named else None
        self.charset = found or "utf-8"
        self.unknown = named if named and not found else ""

    @property
    def is_json(self) -> bool:
        """``application/json``, ``text/json`` or ``…+json``."""
        return self.essence in ("application/json", "text/json") or self.essence.endswith("+json")

    @property
    def is_text(self) -> bool:
        """Whether people read it."""
        essence = self.essence
        known = essence in _TEXT_TYPES or essence in _JSON_LINES
        return known or essence.startswith("text/") or essence.endswith(_TEXT_SUFFIXES)

    @property
    def is_lines(self) -> bool:
        """Whether each line is JSON."""
        return self.essence in _JSON_LINES

    def text(self, body: bytes, host: str, status: int) -> str:
        """The body as text; :class:`ExecutionFailed` if it is none.

        A byte order mark goes before the charset, and what a document says of itself before UTF-8.
        """
        try:
            return body.decode(self._charset_of(body))
        except ValueError as error:
            raise self.no_text(host, status) from error

    def told(self, body: bytes) -> str:
        """As much of the body as can be read; the rest becomes U+FFFD."""
        try:
            return body.decode(self._charset_of(body), errors="replace")
        except ValueError:
            return body.decode(errors="replace")

    def no_text(self, host: str, status: int) -> ExecutionFailed:
        """The error for a body that is not what it is declared to be."""
        wrong = f"declares the charset {self.unknown[:40]!r}, which is none" if self.unknown else ""
        message = f"{host} answered {status} with text that {wrong or f'is not {self.charset}'}"
        hint = "RESPONSE_CHARSET says what it really is"
        return ExecutionFailed(message, detail={"status": status, "hint": hint})

    def _charset_of(self, body: bytes) -> str:
        if body[:1] in b"\xef\xff\xfe\x00":
            return next((charset for mark, charset in _BOMS if body.startswith(mark)), self.charset)
        if not self._is_named and (self.essence.endswith("xml") or self.essence == "text/html"):
            said = _SAID_INSIDE.search(body, 0, _INSIDE)
            return (codec((said[1] or said[2]).decode()) if said else None) or self.charset
        return self.charset


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'")
    return ""


@lru_cache(64)
def codec(charset: str) -> str | None:
    """Python's name of a charset; ``None`` for what is none."""
    try:
        "".encode(charset)  # codecs.lookup would also find base64 and zlib
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return None
    return None if name.replace("_", "-") in _NO_CHARSETS else name


LINE = MediaType("application/x-ndjson")
"""One line of JSON lines, in UTF-8."""


def check_charset(charset: str) -> None:
    """Raise :class:`ConfigError` for a ``RESPONSE_CHARSET`` that is none."""
    if codec(charset) is None:
        raise ConfigError(
            "RESPONSE_CHARSET is no charset that is known here",
            hint="write utf-8, iso-8859-1, windows-1252, shift_jis, …",
            reason="bad-charset",
        )
