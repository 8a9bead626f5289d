"""How one value is written into a part of a request, so that it comes back unchanged and stays in its place.

All functions are pure. They raise :class:`ValueError` with a text that holds no value: the value cannot be
carried there.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from unicodedata import normalize
from urllib.parse import quote, quote_plus, unquote

from enginehost.values import encode

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110, ``token``: names of headers and cookies."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_NOT_IN_HEADERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_IN_PART_NAMES = re.compile(r'[\x00-\x1f\x7f"\\]')
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
    if isinstance(value, str) or not isinstance(value, Mapping | list | tuple):
        yield f"{escape(name)}={escape(text(value))}"
        return
    for key, texts in pairs(name, value, style):
        yield f"{escape(key)}={','.join(map(escape, texts))}"


def pairs(name: str, value: Any, style: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Name and text of one parameter as ``style`` has them; several texts are joined, once encoded.

    ``exploded``: a list gives one pair for each item, an object its JSON text. ``joined``: one pair with
    all. ``deepObject``: ``k[a][b]``, a list one pair for each item. ``indexed``: the same, and ``k[0]`` for
    the items of a list. Members that are null are left out in the last two, which have no word for it.
    """
    if isinstance(value, Mapping):
        return _object_pairs(name, cast("Mapping[Any, Any]", value), style)
    if isinstance(value, list | tuple):
        return _list_pairs(name, cast("list[Any]", value), style)
    return iter(((name, (text(value),)),))


def _list_pairs(name: str, items: Sequence[Any], style: str) -> Iterator[tuple[str, Sequence[str]]]:
    if style == "joined":
        if items:
            yield name, [text(item) for item in items]
    elif style == "indexed":
        for index, item in enumerate(items):
            yield from pairs(f"{name}[{index}]", item, style)
    else:
        for item in items:
            yield name, (text(item),)


def _object_pairs(name: str, members: Mapping[Any, Any], style: str) -> Iterator[tuple[str, Sequence[str]]]:
    if style == "joined":
        if members:
            yield name, [part for key, item in members.items() for part in (str(key), text(item))]
    elif style in ("deepObject", "indexed"):
        for key, item in members.items():
            if "[" in str(key) or "]" in str(key):
                raise ValueError("may not have brackets in its member names here")
            if item is not None:
                yield from pairs(f"{name}[{key}]", item, style)
    else:
        yield name, (text(members),)


def form_pairs(name: str, value: Any, style: str) -> Iterator[str]:
    """The encoded ``name=value`` pairs of one parameter in a form."""
    for key, texts in pairs(name, value, style):
        yield f"{quote_plus(key)}={','.join(map(quote_plus, texts))}"


def check_part_name(name: str) -> None:
    """Refuse a name that a multipart form cannot carry as it is."""
    if _NOT_IN_PART_NAMES.search(name):
        raise ValueError("may not have quotes, backslashes or control characters in names here")


def form_fields(name: str, value: Any, style: str) -> Iterator[tuple[str, bytes]]:
    """The fields of one parameter in a multipart form, which encodes nothing."""
    for key, texts in pairs(name, value, style):
        check_part_name(key)
        if len(texts) > 1 and any("," in one for one in texts):
            raise ValueError("may not hold commas where its parts are joined with them")
        yield key, ",".join(texts).encode()
