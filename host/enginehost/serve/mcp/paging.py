"""Lists that come in pages: a cursor names the last one of the page before."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from enginehost.serve.mcp.wire import INVALID_PARAMS, Fault
from enginehost.values import write

PAGE = 1000
"""Members in one answer."""


def cursor_in(params: Mapping[str, Any]) -> str:
    """The cursor of a request; empty for the first page. Raises :class:`Fault`."""
    cursor: Any = params.get("cursor") or ""
    if not isinstance(cursor, str):
        raise Fault(INVALID_PARAMS, "cursor must be a text")
    return cursor


def page_of(member: str, names: Sequence[str], values: Sequence[Any], cursor: str) -> bytes:
    """The end of a JSON object: ``"tools":[…]}``, and ``nextCursor``. ``names`` are sorted.

    Raises :class:`Fault` for a cursor that is none of ours.
    """
    start = bisect_right(names, _name_in(cursor)) if cursor else 0
    end = start + PAGE
    found = b",".join(map(write, values[start:end]))
    if end >= len(names):
        return b'"%b":[%b]}' % (member.encode(), found)
    following = urlsafe_b64encode(names[end - 1].encode())
    return b'"%b":[%b],"nextCursor":"%b"}' % (member.encode(), found, following)


def _name_in(cursor: str) -> str:
    try:
        return b64decode(cursor, b"-_", validate=True).decode()
    except ValueError:
        raise Fault(INVALID_PARAMS, "this cursor is none of ours") from None
