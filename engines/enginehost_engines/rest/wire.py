"""How one value is written into a part of a request, so that it comes back unchanged and stays in its place.

All functions are pure. They raise :class:`ValueError` with a text that holds no value: the value cannot be
carried there.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any
from unicodedata import normalize
from urllib.parse import quote, unquote

from enginehost.values import encode

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110, ``token``: names of headers and cookies."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_NOT_IN_HEADERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_SEPARATORS = re.compile(r"[/\\]")
_COOKIE_SAFE = "!#$&'()*+-./:<=>?@[]^_`{|}~"
"""RFC 6265, ``cookie-octet``, without ``%``, which escapes the rest."""


def text(value: Any) -> str:
    """A scalar as people write it (``true``, ``1.5``, RFC 3339); a list or an object as JSON text."""
    if type(value) is str:
        return value
    if value is True or value is False:
        return "true" if value else "false"
    if type(value) is int:
        return str(value)
    if type(value) is float:
        if not math.isfinite(value):
            raise ValueError("must be a finite number")
        return repr(value)
    encoded = encode(value)
    return json.loads(encoded) if encoded.startswith(b'"') else encoded.decode()


def escape(value: str) -> str:
    """Percent-encode everything but letters, digits and ``-._~`` (RFC 3986, *unreserved*)."""
    return quote(value, safe="")


def check_segment(segment: str) -> None:
    """Refuse a path segment that a server could take for another path.

    Empty, with control characters, or with a part that reads as ``.`` or ``..``, also to servers that decode
    twice, cut ``;parameters`` off, or take wide letters for plain ones (NFKC).
    """
    if not segment:
        raise ValueError("may not be empty in a path")
    if _CONTROLS.search(segment):
        raise ValueError("may not hold control characters in a path")
    if segment.isascii() and "." not in segment and "%" not in segment:
        return
    for reading in _readings(segment):
        if any(part.partition(";")[0] in (".", "..") for part in _SEPARATORS.split(reading)):
            raise ValueError("may not be or hold a '.' or '..' segment in a path")


def check_no_slash(value: str) -> None:
    """Refuse a value of a path segment that a server could take for several segments.

    It travels as ``%2F``, but many servers decode that before they look where the request belongs.
    """
    if any(_SEPARATORS.search(reading) for reading in _readings(value)):
        raise ValueError("may not hold a slash or backslash in a path (the placement path:encoded allows it)")


def _readings(value: str) -> tuple[str, ...]:
    """What servers make of a text: as it is, decoded once or twice, with wide letters made plain."""
    once = unquote(value)
    readings = (value, once, unquote(once))
    return readings if value.isascii() and "%" not in value else (*readings, *map(_plain, readings))


def _plain(text: str) -> str:
    return normalize("NFKC", text)


def header_value(value: str) -> bytes:
    """A header's value in UTF-8 (RFC 9110, ``field-value`` with ``obs-text``)."""
    if _NOT_IN_HEADERS.search(value):
        raise ValueError("may not hold control characters in a header")
    if value != value.strip(" \t"):
        raise ValueError("may not begin or end with a blank in a header")
    return value.encode()


def cookie_pair(name: str, value: str) -> str:
    """``name=value`` with what a cookie cannot hold percent-encoded."""
    return f"{name}={quote(value, safe=_COOKIE_SAFE)}"


def query_pairs(name: str, value: Any, style: str) -> Iterator[str]:
    """The ``name=value`` pairs of one parameter, encoded; none for an empty list."""
    if isinstance(value, Mapping):
        return _object_pairs(name, value, style)
    if isinstance(value, list | tuple):
        return _list_pairs(name, list(value), style)
    return iter((f"{escape(name)}={escape(text(value))}",))


def _list_pairs(name: str, items: list[Any], style: str) -> Iterator[str]:
    if style == "joined":
        if items:
            yield f"{escape(name)}={','.join(escape(text(item)) for item in items)}"
        return
    for item in items:
        yield f"{escape(name)}={escape(text(item))}"


def _object_pairs(name: str, members: Mapping[str, Any], style: str) -> Iterator[str]:
    if style == "joined":
        if members:
            flat = ",".join(f"{escape(str(key))},{escape(text(item))}" for key, item in members.items())
            yield f"{escape(name)}={flat}"
    elif style == "deepObject":
        for key, item in members.items():
            if "[" in str(key) or "]" in str(key):
                raise ValueError("may not have brackets in its member names in a query")
            yield from query_pairs(f"{name}[{key}]", item, style)
    else:
        yield f"{escape(name)}={escape(text(members))}"


def form_fields(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The fields of one parameter in a form: a list gives one field per item, an object its JSON text."""
    items: list[Any] = list(value) if isinstance(value, list | tuple) else [value]
    return ((name, text(item)) for item in items)
