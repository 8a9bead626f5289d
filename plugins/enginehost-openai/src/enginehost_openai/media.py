"""Images and files of a row, in the places that OpenAI has for them."""

from __future__ import annotations

from typing import Any

from enginehost.errors import InvalidRequest
from enginehost.llm.body import escaped, json_bytes
from enginehost.llm.message import Message, Type


def ends(message: Message, *, responses: bool) -> tuple[bytes, bytes, bool]:
    """What stands before and after the base64 of a row, and whether its content belongs in between.

    Of pieces, the first is given. Raises :class:`InvalidRequest` for what the API has no place for.
    """
    query = message.query or {}
    url = query.get("url")
    if message.type is Type.IMAGE:
        return _image(query, url, responses)
    name = str(query.get("name") or "file")
    if url:
        if not responses:
            raise InvalidRequest(
                "Chat Completions takes no file by its URL: send its content, or API = responses"
            )
        return json_bytes({"type": "input_file", "file_url": url}), b"", False
    data = b'"data:' + escaped(_media_type(query)) + b";base64,"
    if responses:
        return b'{"type":"input_file","filename":' + json_bytes(name) + b',"file_data":' + data, b'"}', True
    head = b'{"type":"file","file":{"filename":' + json_bytes(name) + b',"file_data":'
    return head + data, b'"}}', True


def _image(query: Any, url: Any, responses: bool) -> tuple[bytes, bytes, bool]:
    if responses:
        head, tail = b'{"type":"input_image","image_url":', b"}"
    else:
        head, tail = b'{"type":"image_url","image_url":{"url":', b"}}"
    if url:
        return head + json_bytes(str(url)), tail, False
    return head + b'"data:' + escaped(_media_type(query)) + b";base64,", b'"' + tail, True


def _media_type(query: Any) -> str:
    found = query.get("media_type")
    if not found:
        raise InvalidRequest("an image or file needs its media_type, in its first piece too")
    return str(found)
