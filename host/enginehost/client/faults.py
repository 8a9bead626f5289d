"""What can go wrong between a program and its host, and the host's own errors as they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from enginehost.errors import (
    CallTimeout,
    EngineHostError,
    EngineUnavailable,
    OutcomeUnknown,
    Unauthorized,
    error_from_json,
)
from enginehost.values import MalformedJson, read

if TYPE_CHECKING:
    from enginehost.client.asks import Answer, Ask

_STANDARD = frozenset({"type", "title", "status", "detail", "code", "instance", "error"})
"""The members of a problem document that are not part of the error's detail."""


class HostUnreachable(EngineUnavailable):
    """No host answers: the request has not reached one, so that nothing has run."""


class ConnectionLost(OutcomeUnknown):
    """The connection broke while the host had the request: it may have run, or not."""


class NotAHost(EngineHostError):
    """What answers there is no host, or one behind a proxy that answers in its place."""


def error_in(answer: Answer, url: str) -> EngineHostError:
    """The error that an answer tells of; :class:`NotAHost` where it is none of a host's.

    ``detail["retry_after"]`` has the seconds of ``Retry-After``, where the error does not say better.
    """
    found = _document(answer)
    if found is None or "code" not in found:
        return NotAHost(
            f"{url} answered {answer.status}, and not as a host does", detail={"status": answer.status}
        )
    error = error_of(found)
    if isinstance(error, Unauthorized):
        error.detail.setdefault("hint", f"give a token that {url} knows: token=, or ENGINEHOST_TOKEN")
    after = answer.headers.get("retry-after", "")
    if after.isascii() and after.isdigit():
        error.detail.setdefault("retry_after", int(after))
    return error


def error_of(problem: Mapping[str, Any]) -> EngineHostError:
    """The error of a problem document."""
    body = problem.get("error")
    if isinstance(body, Mapping):
        return error_from_json(cast("Mapping[str, Any]", body))
    detail = {key: value for key, value in problem.items() if key not in _STANDARD}
    return error_from_json(
        {"code": problem.get("code"), "message": problem.get("detail", ""), "detail": detail}
    )


def _document(answer: Answer) -> dict[str, Any] | None:
    if "json" not in answer.headers.get("content-type", ""):
        return None
    try:
        found = read(answer.body)
    except MalformedJson:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def unreachable(url: str, why: str) -> HostUnreachable:
    """No host at ``url``."""
    return HostUnreachable(f"no host answers at {url}: {why}", state="unreachable", reason=why)


def failure(error: Exception, ask: Ask[Any], url: str) -> EngineHostError:
    """What an error of the HTTP library means for a request.

    The library's own error is the cause. It holds the request, whose headers are not in its texts.
    """
    import httpx2

    why = str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.UnsupportedProtocol):
        return unreachable(url, why)
    if isinstance(error, httpx2.TimeoutException) and ask.timeout:
        return CallTimeout(ask.shown, ask.timeout, limit="the caller's timeout")
    if ask.repeatable:
        return unreachable(url, why)
    return ConnectionLost(f"the connection to {url} broke before the answer came: {why}")
