"""What a request says besides its arguments: body bytes under a limit, time, trace, wanted form."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.types import Message, Receive

from enginehost.errors import CallCancelled, InvalidRequest, TooLarge
from enginehost.serve.problem import HttpRefusal
from enginehost.trace_context import NO_TRACE, TraceContext, read_trace

Headers = Mapping[bytes, bytes]

_BODY_SECONDS = 60.0
"""How long a body may take to arrive."""
_LONGEST_SECONDS = 86_400.0
"""A timer cannot be set for any number; nobody waits longer than a day."""
_WEIGHT = re.compile(r"[01](?:\.[0-9]{0,3})?")
_READ_ON = 4
"""A body is read up to so many times the limit before it is refused."""


def check_media(headers: Headers) -> None:
    """Refuse a body that is not plain ``application/json`` in UTF-8, unless there is none, of no type."""
    given = headers.get(b"content-type", b"").decode("latin-1").lower()
    media, _, parameters = given.partition(";")
    charset = parameters.replace(" ", "").replace('"', "")
    plain = media.strip() == "application/json" and charset in ("", "charset=utf-8", "charset=utf8")
    if not plain and (given or _has_body(headers)):
        raise HttpRefusal(415, "the body must be sent as Content-Type: application/json, in UTF-8")
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise HttpRefusal(415, "the body must be sent without Content-Encoding")


def _has_body(headers: Headers) -> bool:
    """Whether a body follows, as RFC 9112 (6.3) has requests say it."""
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """The whole body. Raises :class:`TooLarge` while reading, :class:`CallCancelled` when the client went.

    A body that is too large is read on for a while (not kept) before it is refused, unless its sender
    asked first: most clients listen only after they have sent it.
    """
    if b"expect" in headers and _declared(headers) > limit:
        raise TooLarge("the body", limit=limit, size=_declared(headers))
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body") or message["type"] != "http.request":
        body = await _read_on(message, receive, headers, limit)
    if len(body) > limit:
        raise TooLarge("the body", limit=limit, size=_declared(headers) or None)
    return body


def _declared(headers: Headers) -> int:
    length = headers.get(b"content-length", b"")
    return int(length) if length.isdigit() else 0


async def _read_on(message: Message, receive: Receive, headers: Headers, limit: int) -> bytes:
    if message["type"] == "http.disconnect":
        raise CallCancelled("the client went away")
    if _declared(headers) > _READ_ON * limit:
        raise TooLarge("the body", limit=limit, size=_declared(headers))
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await _read_rest(receive, message["body"], limit)
    except TimeoutError:
        raise HttpRefusal(408, f"the body did not arrive within {_BODY_SECONDS:g} s") from None


async def _read_rest(receive: Receive, first: bytes, limit: int) -> bytes:
    """The body that began with ``first``; of one over the limit no more than shows that it is."""
    chunks, size, more = [first], len(first), True
    while more and size <= _READ_ON * limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallCancelled("the client went away")
        if size <= limit:
            chunks.append(message.get("body", b""))
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(chunks)


def timeout_of(headers: Headers) -> float | None:
    """Seconds from ``Request-Timeout`` (or ``X-Request-Timeout``); the function's own limit still holds."""
    given = headers.get(b"request-timeout", headers.get(b"x-request-timeout"))
    if given is None:
        return None
    if b"request-timeout" in headers and b"x-request-timeout" in headers:
        raise InvalidRequest("give Request-Timeout or X-Request-Timeout, not both")
    try:
        seconds = float(given) if b"_" not in given else 0.0  # Python's own way to write numbers
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < math.inf:
        raise InvalidRequest("Request-Timeout must be a number of seconds above 0")
    return min(seconds, _LONGEST_SECONDS)


def trace_of(headers: Headers) -> TraceContext:
    """What ``traceparent`` and ``tracestate`` say."""
    given = headers.get(b"traceparent")
    if given is None:
        return NO_TRACE
    return read_trace(given.decode("latin-1"), headers.get(b"tracestate", b"").decode("latin-1"))


def kind_in(query: bytes) -> str | None:
    """The kind of tool that ``?format=`` names."""
    return dict(parse_qsl(query.decode("latin-1"))).get("format")


def wants_events(headers: Headers) -> bool:
    """Whether the client asks for server-sent events, and would not rather have JSON."""
    accept = headers.get(b"accept")
    if accept is None or accept == b"*/*" or b"text/event-stream" not in (named := accept.lower()):
        return False
    wishes = _wishes(named.decode("latin-1"))
    events = wishes.get("text/event-stream", 0.0)
    return events > 0 and events >= wishes.get("application/json", 0.0)


def _wishes(accept: str) -> dict[str, float]:
    """The media types that ``Accept`` names with their weights (RFC 9110, 12.5.1)."""
    found: dict[str, float] = {}
    for part in accept.split(","):
        media, *parameters = [piece.strip() for piece in part.split(";")]
        weight = next((text[2:] for text in parameters if text.startswith("q=")), "1")
        found[media] = float(weight) if _WEIGHT.fullmatch(weight) else 0.0
    return found
