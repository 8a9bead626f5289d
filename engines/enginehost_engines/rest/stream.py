"""An answer item by item: server-sent events, JSON lines, text lines, or chunks of bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2

from enginehost.errors import TooLarge
from enginehost.values import MalformedJson, decode
from enginehost_engines.rest.response import MediaType, parse_json

_JSON_LINES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)


def items(response: httpx2.Response, limit: int, host: str) -> AsyncIterator[Any]:
    """The items of an answer, as they arrive; :class:`TooLarge` for one over ``limit`` bytes.

    Events are ``{"event", "data", "id"?}`` with JSON data parsed; JSON lines are values; other text gives its
    lines without their ends; the rest gives bytes as they come.
    """
    media = MediaType(response.headers.get("content-type", ""))
    if media.essence == "text/event-stream":
        return _events(response, limit, host)
    if media.essence in _JSON_LINES:
        return _json_lines(response, media, limit, host)
    if media.is_text or media.is_json or not media.essence:
        return _text_lines(response, media, limit, host)
    return response.aiter_bytes()


async def lines(chunks: AsyncIterator[bytes], limit: int, host: str) -> AsyncIterator[bytes]:
    """Lines ended by LF or CRLF, without their ends; the last needs none."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        parts.append(first)
        size += len(first)
        for following in others:
            _check(size, limit, host)
            yield b"".join(parts).removesuffix(b"\r")
            parts, size = [following], len(following)
        _check(size, limit, host)
    if size:
        yield b"".join(parts).removesuffix(b"\r")


def _check(size: int, limit: int, host: str) -> None:
    if size > limit:
        raise TooLarge(f"an item of the answer of {host} (MAX_RESPONSE_BYTES)", limit=limit)


async def _text_lines(
    response: httpx2.Response, media: MediaType, limit: int, host: str
) -> AsyncIterator[str]:
    async for line in lines(response.aiter_bytes(), limit, host):
        yield media.text(line)


async def _json_lines(
    response: httpx2.Response, media: MediaType, limit: int, host: str
) -> AsyncIterator[Any]:
    async for line in lines(response.aiter_bytes(), limit, host):
        if line.strip():
            yield parse_json(line, media, host, response.status_code)


async def _events(response: httpx2.Response, limit: int, host: str) -> AsyncIterator[dict[str, Any]]:
    # the event source asks the response for its request, to name it in errors
    response.request = httpx2.Request("GET", f"http://{host}" if ":" not in host else "http://host")
    try:
        async for event in httpx2.EventSource(response, max_event_size=limit):
            item: dict[str, Any] = {"event": event.event, "data": _data(event.data)}
            yield item | ({"id": event.id} if event.id else {})
    except httpx2.SSEError:
        raise TooLarge(f"an item of the answer of {host} (MAX_RESPONSE_BYTES)", limit=limit) from None


def _data(text: str) -> Any:
    try:
        return decode(text.encode())
    except MalformedJson:
        return text
