"""What a call brings to a worker, and what it may send back."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from enginehost.errors import TooLarge
from enginehost.values import Parted, encode, pack, unpack


def call_frame(function: str, arguments: dict[str, Any], about: Any, limit: int | None) -> bytes:
    """The payload of CALL and STREAM: ``[function, arguments, about, limit]``; what is unknown is left out.

    ``limit`` is the longest result, in bytes of JSON as callers get it. Raises ``NotJson``, with a pointer
    into the arguments.
    """
    given = pack(arguments, apart=True)
    if limit is not None:
        text = b"[%b,%b,%b,%d]" % (_name(function), given, pack(about or False), limit)
    elif about:
        text = b"[%b,%b,%b]" % (_name(function), given, pack(about))
    else:
        text = b"[%b,%b]" % (_name(function), given)
    return Parted(text, given.parts) if isinstance(given, Parted) else text


@lru_cache(1024)
def _name(function: str) -> bytes:
    return pack(function)


def read_call(payload: bytes) -> tuple[str, dict[str, Any], Any, int | None]:
    """The inverse of :func:`call_frame`."""
    sent: list[Any] = unpack(payload)
    if len(sent) == 2:
        return sent[0], sent[1], None, None
    return sent[0], sent[1], sent[2] or None, sent[3] if len(sent) > 3 else None


def packed(value: Any, limit: int | None) -> bytes:
    """A result for the wire. Raises ``NotJson``, and :class:`TooLarge` before anything is sent."""
    kind = type(value)
    if (kind is str or kind is bytes) and limit is not None and len(value) > limit:
        size = len(value) + 2 if kind is str else len('{"$bytes":""}') + (len(value) + 2) // 3 * 4
        raise TooLarge("the result", limit=limit, size=size)  # it takes memory to write it first
    data = pack(value, apart=True)
    size = data.size if isinstance(data, Parted) else len(data)
    if limit is not None and size > limit:
        if (
            b'"$' in data
        ):  # what is exact on the wire may be shorter for callers: only the length of theirs counts
            size = len(encode(value, allow_nan=True))
        if size > limit:
            raise TooLarge("the result", limit=limit, size=size)
    return data
