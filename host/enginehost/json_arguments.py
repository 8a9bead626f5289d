"""The JSON object of arguments, for every face: exact (see :mod:`enginehost.values`), no key given twice."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from enginehost.errors import InvalidRequest, shortened
from enginehost.json_values import kind_of
from enginehost.values import decode
from enginehost.values._convert import pieces

MOST_CONTAINERS = 2**20
"""Lists and objects in one body: while many more live, the garbage collector holds up all calls for long."""

_MOST_NAME = 200
"""Characters of a key that are said."""


def read_object(body: bytes, what: str = "the body") -> dict[str, Any]:
    """The object in ``body``; an empty one is ``{}``. Raises :class:`InvalidRequest`, which says ``what``.

    RFC 8259 leaves open what a repeated key means, so readers differ: it is refused. To find one costs
    a count in C: valid JSON has one colon outside strings for each key.
    """
    if not body:
        return {}
    if len(body) > MOST_CONTAINERS:
        _refuse_too_many(body, what)
    value: Any = decode(body)
    if type(value) is not dict:
        raise InvalidRequest(f"{what} must be a JSON object of arguments, not {kind_of(value)}")
    if body.count(b":") != len(value):
        _refuse_repeated(body, value)
    return value


def read_value(text: bytes) -> Any:
    """Any JSON value, read as strictly. Raises :class:`InvalidRequest`."""
    value = decode(text)
    _refuse_repeated(text, value)
    return value


def _refuse_too_many(body: bytes, what: str) -> None:
    if _containers(body) > MOST_CONTAINERS and _containers(_bare(body)) > MOST_CONTAINERS:
        raise InvalidRequest(f"{what} holds more than {MOST_CONTAINERS} lists and objects")


def _refuse_repeated(body: bytes, value: Any) -> None:
    if _bare(body).count(b":") != _keys(value):
        raise InvalidRequest(
            f"the key {shortened(_repeated(body), _MOST_NAME)!r} stands twice in one object",
            recorded="a key stands twice in one object",
        )


def _bare(body: bytes) -> bytes:
    """Valid JSON without its strings."""
    escaped = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    return b"".join(escaped.split(b'"')[::2])


def _containers(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{")


def _keys(value: Any) -> int:
    """Keys of all objects inside ``value`` as it was written: bytes were ``{"$bytes": …}``."""
    return sum(
        sum(len(item) for item in piece if type(item) is dict)
        + sum(1 for item in piece if type(item) is bytes)
        for _, piece in pieces(value)
    )


def _repeated(body: bytes) -> str:
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                found.append(key)
            seen.add(key)

    with suppress(RecursionError):  # nested deeper than the standard library reads
        json.loads(body, object_pairs_hook=look)
    return found[0] if found else "?"
