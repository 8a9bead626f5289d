"""An answer item by item: server-sent events, JSON lines, text lines, or chunks of bytes."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any

import httpx2

from enginehost.errors import TooLarge
from enginehost.values import MalformedJson, decode
from enginehost_engines.rest.media import LINE, MediaType
from enginehost_engines.rest.response import check_coding, parse_json


class InTime(httpx2.AsyncByteStream):
    """The bytes of an answer, each read within a scope of its own: one may bring thousands of items."""

    def __init__(
        self, source: httpx2.AsyncByteStream, scope: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._source = source
        self._scope = scope

    async def __aiter__(self) -> AsyncIterator[bytes]:
        source = aiter(self._source)
        while True:
            with self._scope():
                try:
                    chunk = await anext(source)
                except StopAsyncIteration:
                    return
            yield chunk

    async def aclose(self) -> None:
        """Close what it reads from."""
        await self._source.aclose()


def items(response: httpx2.Response, limit: int, host: str, charset: str | None = None) -> AsyncIterator[Any]:
    """The items of an answer, as they arrive; :class:`TooLarge` for one over ``limit`` bytes.

    Events are ``{"event", "data", "id"?}`` with JSON data parsed; JSON lines are values; other text gives its
    lines without their ends; the rest gives bytes as they come. ``charset`` goes before that of the answer.
    """
    check_coding(response.headers, host)
    media = MediaType(response.headers.get("content-type", ""), charset)
    if media.essence == "text/event-stream":
        return _events(response, limit, host)
    if media.is_lines:
        return _json_lines(response, media, limit, host)
    if media.is_text or media.is_json or not media.essence:
        return _text_lines(response, media, limit, host)
    return response.aiter_bytes()


async def _utf8_lines(
    response: httpx2.Response, media: MediaType, limit: int, host: str
) -> AsyncIterator[bytes]:
    """The lines in UTF-8, whatever charset they arrive in, without a byte order mark."""
    chunks = response.aiter_bytes()
    if media.charset != "utf-8":
        chunks = _recoded(chunks, media, host, response.status_code)
    first = True
    async for line in lines(chunks, limit, host):
        yield line.removeprefix(codecs.BOM_UTF8) if first else line
        first = False


async def _recoded(
    chunks: AsyncIterator[bytes], media: MediaType, host: str, status: int
) -> AsyncIterator[bytes]:
    decoder = codecs.getincrementaldecoder(media.charset)()
    try:
        async for chunk in chunks:
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", True).encode()
    except UnicodeError as error:
        raise media.no_text(host, status) from error


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
    async for line in _utf8_lines(response, media, limit, host):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise media.no_text(host, response.status_code) from error


async def _json_lines(
    response: httpx2.Response, media: MediaType, limit: int, host: str
) -> AsyncIterator[Any]:
    async for line in _utf8_lines(response, media, limit, host):
        if line.strip():
            yield parse_json(line, LINE, host, response.status_code)


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
