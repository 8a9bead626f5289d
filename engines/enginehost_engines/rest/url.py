"""The endpoint's URL with its ``{name}`` places; only path and query can have any."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from enginehost.errors import ConfigError
from enginehost_engines.rest.wire import check_no_slash, check_segment, escape

KEY = "API_ENDPOINT_URL"

_PLACE = re.compile(r"\{([^{}]*)\}")
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_HOST = re.compile(r"[A-Za-z0-9_.-]+")
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LITERAL_SAFE = "%/!$&'()*+,;=:@?~"

_PLAIN = re.compile(r"[A-Za-z0-9_.~/=&-]*")
_NO_KEYS: frozenset[str] = frozenset()

DEFAULT_PORTS = {"http": 80, "https": 443}
"""The schemes there are, with their own ports."""


class Part(NamedTuple):
    """Literal text (encoded), then the value of ``name`` (empty: none)."""

    literal: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host (lower case, IDNA) and port."""

    scheme: str
    host: str
    port: int

    @property
    def explicit_port(self) -> int | None:
        """The port, where it is not the scheme's own."""
        return None if self.port == DEFAULT_PORTS[self.scheme] else self.port

    @property
    def authority(self) -> str:
        """What the ``Host`` header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.explicit_port is None else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A parsed URL. ``segments`` are the pieces of the path between slashes, ``query`` follows the ``?``."""

    origin: Origin
    segments: tuple[tuple[Part, ...], ...]
    query: tuple[Part, ...]
    names: frozenset[str]

    @property
    def query_keys(self) -> frozenset[str]:
        """The names that the URL's own query has."""
        if not self.query:
            return _NO_KEYS
        literal = "".join(part.literal for part in self.query)
        return frozenset(unquote(pair.partition("=")[0]) for pair in literal.split("&") if pair)

    @property
    def query_pairs(self) -> dict[str, str]:
        """The names and values in the URL's own query, decoded: keys that services want there are secret."""
        literal = "".join(part.literal for part in self.query)
        pairs = (pair.partition("=") for pair in literal.split("&"))
        return {unquote(name): unquote(value) for name, _, value in pairs}

    @property
    def literal_segments(self) -> list[str]:
        """The texts between the slashes of the path that no parameter fills, decoded."""
        literal = "/".join("".join(part.literal for part in parts) for parts in self.segments)
        return [unquote(segment) for segment in literal.split("/") if segment]

    def path(self, values: Mapping[str, str], encoded: frozenset[str] = _NO_KEYS) -> str:
        """The path with ``values`` in their places; ``ValueError`` where one could leave its segment.

        The values of ``encoded`` may hold slashes.
        """
        return "/".join([_fill_segment(parts, values, encoded) for parts in self.segments])

    def own_query(self, values: Mapping[str, str]) -> str:
        """The URL's own query with ``values`` in their places."""
        return _fill(self.query, values)


def _fill(parts: tuple[Part, ...], values: Mapping[str, str]) -> str:
    return "".join([part.literal + (escape(values[part.name]) if part.name else "") for part in parts])


def _fill_segment(parts: tuple[Part, ...], values: Mapping[str, str], encoded: frozenset[str]) -> str:
    if len(parts) == 1 and not parts[0].name:
        return parts[0].literal
    for part in parts:
        if part.name and not values[part.name]:
            raise ValueError("may not be empty in a path")
        if part.name and part.name not in encoded:
            check_no_slash(values[part.name])
    check_segment("".join([unquote(part.literal) + values.get(part.name, "") for part in parts]))
    return _fill(parts, values)


@lru_cache(16)  # a file's URL is read when its keys are checked, and again for its plan
def parse(url: str) -> Endpoint:
    """Read the URL of an endpoint; :class:`ConfigError` where it is none."""
    split = _split(url)
    path = split.path or "/"
    # a path without places needs no look at its segments
    segments = tuple(_parts(segment) for segment in (path.split("/") if "{" in path else [path]))
    query = _parts(split.query) if split.query else ()
    names = {part.name for parts in (*segments, query) for part in parts if part.name}
    return Endpoint(_origin(split.scheme, split.netloc), segments, query, frozenset(names))


def _split(url: str) -> SplitResult:
    if _UNSAFE.search(url):
        raise _wrong("has a blank, a control character or a backslash", "write %20 for a blank")
    try:
        split = urlsplit(url)
    except ValueError:
        raise _no_url() from None
    if split.scheme not in DEFAULT_PORTS:
        raise _wrong("does not begin with http:// or https://", "write it like https://host/path")
    if "@" in split.netloc:
        raise _wrong("holds a user name", "use AUTH=basic with AUTH_USERNAME and AUTH_PASSWORD")
    if "{" in split.netloc or "}" in split.netloc:
        raise _wrong("has a parameter in its host", "a parameter may stand in the path or the query only")
    return split


@lru_cache(1024)
def _origin(scheme: str, netloc: str) -> Origin:
    """Many files name one server: they share what is known of it."""
    split = SplitResult(scheme, netloc, "", "", "")
    try:
        host, port = split.hostname or "", split.port
    except ValueError:
        raise _no_url() from None
    if not host:
        raise _wrong("has no host", "write it like https://host/path")
    if not host.isascii():
        host = _idna(host)
    elif ":" not in host and not _HOST.fullmatch(host):
        raise _wrong("has a host with characters that no host name has")
    return Origin(scheme, host, port or DEFAULT_PORTS[scheme])


def _idna(host: str) -> str:
    from httpx2 import URL, InvalidURL

    try:
        return URL(f"http://{host}").raw_host.decode()
    except InvalidURL:
        raise _wrong("has a host that is no valid internationalised name") from None


def _parts(literal: str) -> tuple[Part, ...]:
    if "{" not in literal and "}" not in literal:
        return (Part(_literal(literal)),)
    pieces = _PLACE.split(literal)
    if any("{" in piece or "}" in piece for piece in pieces[::2]) or "" in pieces[1::2]:
        raise _wrong(
            "has an unbalanced or empty {}", "write {name}, or %7B and %7D for the braces themselves"
        )
    texts, names = [_literal(piece) for piece in pieces[::2]], [*pieces[1::2], ""]
    return tuple(Part(piece, name) for piece, name in zip(texts, names, strict=True) if piece or name) or (
        Part(""),
    )


def _literal(piece: str) -> str:
    if _PLAIN.fullmatch(piece):
        return piece
    return quote(_LONE_PERCENT.sub("%25", piece), safe=_LITERAL_SAFE)


def _no_url() -> ConfigError:
    return _wrong("is no URL", "write it like https://host:port/path")


def _wrong(problem: str, hint: str = "") -> ConfigError:
    return ConfigError(f"{KEY} {problem}", hint=hint, reason="bad-url")
