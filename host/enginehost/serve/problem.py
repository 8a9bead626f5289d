"""Errors on HTTP: problem details (RFC 9457)."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar

from starlette.types import Send

from enginehost.errors import EngineHostError, InvalidRequest, Overloaded, Unauthorized, bounded
from enginehost.record import error_text
from enginehost.store.ids import TAKEN
from enginehost.values import encode

HeaderList = list[tuple[bytes, bytes]]

_RESERVED = frozenset({"type", "title", "status", "detail", "code", "instance", "error"})
"""Members with a meaning of their own: what an error's detail calls so stands under ``error`` alone."""
_log = logging.getLogger("enginehost.http")
_BY_REASON = {TAKEN: HTTPStatus.CONFLICT, "settled": HTTPStatus.CONFLICT, "no-question": HTTPStatus.NOT_FOUND}
"""Invalid requests for which HTTP has a better status: what they ask about is decided, or is not there."""
_UNAVAILABLE_RETRY_SECONDS = 5
"""What ``Retry-After`` says of an engine that cannot serve now: a restart or a reload is over by then."""


class HttpRefusal(InvalidRequest):
    """A request that HTTP itself has a status for (405, 408, 415, …)."""

    code: ClassVar[str] = "invalid_request"

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


def status_of(error: EngineHostError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, HttpRefusal):
        return error.status
    reason = str(error.detail.get("reason", "")) if isinstance(error, InvalidRequest) else ""
    return _BY_REASON.get(reason, error.row.http)


def problem(error: EngineHostError, instance: str = "") -> dict[str, Any]:
    """The problem document; ``instance`` is the call id.

    ``error`` is the error as it is on every face (``{"code", "message", "detail"}``). For short, the members
    of its ``detail`` stand beside the standard members too, as RFC 9457 has extension members (``errors``,
    ``nearest``, ``limit``, ``retry_after``, …), except those whose names are taken (``type``, ``status``).
    """
    status, body = status_of(error), bounded(error.to_json())
    title = error.row.title if status == error.row.http else HTTPStatus(status).phrase
    document: dict[str, Any] = {
        "type": f"urn:enginehost:error:{error.code}",
        "title": title,
        "status": status,
        "detail": body["message"],
        "code": error.code,
    }
    if instance:
        document["instance"] = instance
    document.update((key, value) for key, value in body.get("detail", {}).items() if key not in _RESERVED)
    document["error"] = body
    return document


def problem_json(error: EngineHostError, instance: str = "") -> bytes:
    """The problem document as JSON bytes."""
    return encode(problem(error, instance))


def problem_headers(error: EngineHostError) -> HeaderList:
    """The headers that belong to an error, without the length."""
    headers = [(b"content-type", b"application/problem+json"), (b"cache-control", b"no-store")]
    if isinstance(error, HttpRefusal):
        headers += [(name.encode().lower(), value.encode()) for name, value in error.headers.items()]
    elif isinstance(error, Unauthorized):
        headers.append((b"www-authenticate", error.challenge.encode()))
    elif isinstance(error, Overloaded):
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after))))
    elif status_of(error) == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append((b"retry-after", b"%d" % _UNAVAILABLE_RETRY_SECONDS))
    return headers


async def refuse(
    send: Send, error: EngineHostError, headers: HeaderList | None = None, instance: str = ""
) -> None:
    """Send ``error`` as a problem document, with ``headers`` beside its own.

    A refusal without a call (``instance``) is not in the host's record of calls: it is logged here.
    """
    if not instance:
        _log.info("request refused with %d: %s", status_of(error), error_text(error, said=True))
    await respond(
        send, status_of(error), problem_headers(error) + (headers or []), problem_json(error, instance)
    )


async def respond(send: Send, status: int, headers: HeaderList, body: bytes) -> None:
    """Send one whole response; the length is added."""
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
