"""What a provider's failure means: the error of the tree, and whether trying again may help.

``detail`` of each has ``retryable``, and where they are known ``status`` and ``retry_after`` (seconds).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, cast

import orjson

from enginehost.errors import (
    CallTimeout,
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    InvalidRequest,
    Overloaded,
    TooLarge,
    UnknownFunction,
)

RETRYABLE = frozenset({408, 409, 429})
"""Statuses below 500 after which the same request may succeed."""

_MOST_QUOTED = 500
"""Characters of a provider's own words that are told."""

_FINAL_429 = ("insufficient_quota", "billing_not_active", "credit")
"""Codes of a 429 that time does not mend: the account has no money left."""


def from_status(who: str, status: int, headers: Mapping[str, str], body: bytes) -> EngineHostError:
    """The error for an answer of ``status``; ``who`` names the engine.

    ``headers`` have lower-case names. A rate limit is :class:`Overloaded`, all else
    :class:`ExecutionFailed`, whose message quotes what the provider says.
    """
    said, code = told(body)
    text = f"{who}: the provider answered {status}" + (f": {said}" if said else "")
    after = retry_after(headers)
    if status in (429, 529) and not any(word in code for word in _FINAL_429):
        error = Overloaded(text, retry_after=1.0 if after is None else after)
        error.detail |= {"status": status, "retryable": True}
        if after is None:
            error.detail.pop("retry_after")
        return error
    if status in (401, 403):
        text = f"{text} (is the key in the file right, and does it allow this model?)"
    retryable = status >= 500 or (status in RETRYABLE and status != 429)
    detail: dict[str, Any] = {"type": "ProviderError", "status": status, "retryable": retryable}
    detail |= {name: value for name, value in (("provider_code", code), ("retry_after", after)) if value}
    return ExecutionFailed(text, detail=detail)


def from_event(who: str, said: Any) -> EngineHostError:
    """The error for one that a provider sends inside its stream (the object under ``error``)."""
    body = orjson.dumps({"error": said})
    fields: Mapping[str, Any] = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    given = fields.get("status") or fields.get("code")
    if isinstance(given, int) and 400 <= given < 600:
        return from_status(who, given, {}, body)
    text, code = told(body)
    if "rate_limit" in code:
        return from_status(who, 429, {}, body)
    if "overloaded" in code:
        return from_status(who, 529, {}, body)
    retryable = not any(word in code for word in ("invalid", "context_length", "policy", "not_found"))
    detail: dict[str, Any] = {"type": "ProviderError", "retryable": retryable}
    detail |= {"provider_code": code} if code else {}
    return ExecutionFailed(f"{who}: the provider broke off: {text or 'it says no reason'}", detail=detail)


def from_transport(who: str, error: Exception, timeout: float) -> EngineHostError:
    """The error for one of httpx2. ``timeout``: how long the next byte could take, in seconds."""
    import httpx2

    if isinstance(error, httpx2.ConnectTimeout | httpx2.ConnectError | httpx2.ProxyError):
        return _unreachable(f"{who}: no connection to the provider ({_reason(error)})")
    if isinstance(error, httpx2.PoolTimeout):
        return _unreachable(f"{who}: no connection came free")
    if isinstance(error, httpx2.TimeoutException):
        late = CallTimeout(who, timeout, "it waited for the provider's next byte", limit="READ_TIMEOUT")
        late.detail |= {"retryable": True}
        return late
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
        return ExecutionFailed(f"{who}: {error}", detail={"type": type(error).__name__, "retryable": False})
    text = f"{who}: the connection to the provider broke off ({_reason(error)})"
    return ExecutionFailed(text, detail={"type": type(error).__name__, "retryable": True})


def may_pass(error: BaseException) -> bool:
    """Whether the same request may do better a little later."""
    if not isinstance(error, EngineHostError):
        return False
    return bool(error.detail.get("retryable", isinstance(error, Overloaded)))


def asks_for_another(error: BaseException) -> bool:
    """Whether another model may answer what this one did not: the request itself is not at fault."""
    if isinstance(error, InvalidRequest | TooLarge | UnknownFunction):
        return False
    if not isinstance(error, EngineHostError):
        return False
    return error.detail.get("status") not in (400, 413, 422)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that ``Retry-After`` (RFC 9110, 10.2.3) or OpenAI's ``retry-after-ms`` asks for."""
    milliseconds = headers.get("retry-after-ms", "").strip()
    if milliseconds.isascii() and milliseconds.isdigit() and len(milliseconds) < 12:
        return int(milliseconds) / 1000
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
        return seconds if 0 <= seconds < 1e8 else None
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return None


def told(body: bytes) -> tuple[str, str]:
    """What a provider says in the body of an error, and its code; for people, shortened."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _short(body.decode("utf-8", "replace")), ""
    if isinstance(found, list) and found:
        found = cast("list[Any]", found)[0]
    if not isinstance(found, dict):
        return _short(str(found)), ""
    outer = cast("dict[str, Any]", found)
    error: Any = outer.get("error", outer)
    if not isinstance(error, dict):
        return _short(str(error)), ""
    inner = cast("dict[str, Any]", error)
    words = inner.get("message") or inner.get("detail") or outer.get("message") or ""
    codes = [one for one in (inner.get("code"), inner.get("type")) if isinstance(one, str)]
    return _short(str(words)), " ".join(codes)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]} …"


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _unreachable(text: str) -> EngineUnavailable:
    error = EngineUnavailable(text, reason="unreachable")
    error.detail |= {"retryable": True}
    return error
