"""Images and files that are said: what cannot go to any model is refused before it is stored.

A row that no provider takes would fail its turn, and each later one of the session too.
"""

from __future__ import annotations

import re
from binascii import Error, a2b_base64

from enginehost.errors import InvalidRequest
from enginehost.llm.message import Message, Type

_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?: *;.*)?", re.ASCII)
"""RFC 6838, section 4.2, and parameters."""


def check_media(row: Message) -> None:
    """Raises ``InvalidRequest`` for an image or a file that lacks its media type, or is no base64."""
    if row.type not in (Type.IMAGE, Type.FILE):
        return
    query = row.query or {}
    media, url = query.get("media_type"), query.get("url")
    if media is not None and not (isinstance(media, str) and _MEDIA_TYPE.fullmatch(media)):
        raise InvalidRequest(f"query.media_type of {_a(row)} must be a media type, such as image/png")
    if url is not None:
        _check_url(row, url)
        return
    if media is None:
        raise InvalidRequest(f"{_a(row)} needs query.media_type, such as image/png, or a query.url")
    try:
        empty = not a2b_base64(row.content, strict_mode=True)
    except (Error, ValueError):
        raise InvalidRequest(f"the content of {_a(row)} must be base64, without line ends") from None
    if empty:
        raise InvalidRequest(f"{_a(row)} needs its base64 as content, or a query.url")


def _check_url(row: Message, url: object) -> None:
    if not isinstance(url, str) or not url:
        raise InvalidRequest(f"query.url of {_a(row)} must be a text")
    if row.content:
        raise InvalidRequest(f"{_a(row)} has either content or query.url, not both")


def _a(row: Message) -> str:
    return "an image" if row.type is Type.IMAGE else "a file"
