"""The JSON object of arguments, for every face: exact (see :mod:`enginehost.values`), no key given twice."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from enginehost.errors import InvalidRequest
from enginehost.values import decode


def read_object(body: bytes, what: str = "the body") -> dict[str, Any]:
    """The object in ``body``; an empty one is ``{}``. Raises :class:`InvalidRequest`, which says ``what``.

    RFC 8259 leaves open what a repeated key means, so readers differ: it is refused. To find one costs
    a count in C: valid JSON has one colon outside strings for each key.
    """
    if not body:
        return {}
    value: Any = decode(body)
    if type(value) is not dict:
        raise InvalidRequest(f"{what} must be a JSON object of arguments, not {_kind(value)}")
    if body.count(b":") != len(value) and _colons(body) != _keys(value):
        raise InvalidRequest(f"the key {_repeated(body)!r} stands twice in one object")
    return value


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _colons(body: bytes) -> int:
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(bare.split(b'"')[::2]).count(b":")


def _keys(value: dict[str, Any]) -> int:
    """Keys of all objects inside ``value`` as it was written: bytes were ``{"$bytes": …}``."""
    count, rest = 0, list[Any]([value])
    while rest:  # no recursion: a body may nest deeply
        item = rest.pop()
        if type(item) is dict:
            count += len(item)
            rest.extend(item.values())
        elif type(item) is list:
            rest.extend(item)
        elif type(item) is bytes:
            count += 1
    return count


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
