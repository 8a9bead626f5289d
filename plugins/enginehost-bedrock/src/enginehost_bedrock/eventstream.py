"""Amazon's event stream (``application/vnd.amazon.eventstream``), parsed by botocore."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from typing import Any

import orjson

from enginehost.errors import EngineHostError, ExecutionFailed
from enginehost.llm.failures import from_status
from enginehost.llm.sse import malformed

_STATUSES = {
    "throttlingException": 429,
    "serviceUnavailableException": 503,
    "internalServerException": 500,
    "modelStreamErrorException": 424,
    "modelTimeoutException": 408,
    "validationException": 400,
}
"""The status that an error inside the stream would have had before it."""

_BROKEN_STREAM = "modelStreamErrorException"

Event = tuple[str, Mapping[str, Any]]
"""The type of an event, and its JSON."""


async def events(who: str, chunks: AsyncIterable[bytes]) -> AsyncGenerator[Event, None]:
    """The events of a stream. Raises what the provider says went wrong."""
    from botocore.eventstream import EventStreamBuffer, ParserError

    buffer: Any = EventStreamBuffer()
    async for chunk in chunks:
        buffer.add_data(chunk)
        try:
            for message in buffer:
                yield _event(who, message.headers, message.payload)
        except ParserError as error:
            raise malformed("it is no event stream of Amazon's") from error


def _event(who: str, headers: Mapping[str, Any], payload: bytes) -> Event:
    kind = headers.get(":message-type")
    if kind == "exception":
        raise _failure(who, str(headers.get(":exception-type", "")), payload)
    if kind == "error":
        text = f"{who}: the provider broke off: {headers.get(':error-message') or headers.get(':error-code')}"
        raise ExecutionFailed(text, detail={"type": "ProviderError", "retryable": True})
    try:
        found: Any = orjson.loads(payload or b"{}")
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise malformed("an event holds no JSON object")
    return str(headers.get(":event-type", "")), found


def _failure(who: str, name: str, payload: bytes) -> EngineHostError:
    error = from_status(who, _STATUSES.get(name, 500), {}, payload)
    if name == _BROKEN_STREAM:
        error.detail["retryable"] = True
    return error
