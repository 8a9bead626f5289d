"""What plugins of ``llm`` raise, as errors of the host. They use libraries of many vendors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.errors import EngineHostError, EngineUnavailable, ExecutionFailed
from enginehost.llm.failures import from_status, told


def failure(who: str, error: Exception) -> EngineHostError:
    """The error for a plugin's. Its own text is told only where it is meant for people."""
    from llm import ModelError, NeedsKeyException

    if isinstance(error, EngineHostError):
        return error
    if isinstance(error, NeedsKeyException):
        detail = {"type": "NeedsKey", "retryable": False, "hint": "write API_KEY, or use llm keys set"}
        return ExecutionFailed(f"{who}: there is no key for this model", detail=detail)
    if (status := _status(error)) is not None:
        return from_status(who, status, _headers(error), _body(error))
    if isinstance(error, ModelError):
        return ExecutionFailed(
            f"{who}: {told(str(error).encode())[0]}", detail={"type": "ModelError", "retryable": False}
        )
    name = type(error).__name__
    if isinstance(error, OSError) or "Connect" in name:
        away = EngineUnavailable(f"{who}: no connection to the provider ({name})", reason="unreachable")
        away.detail["retryable"] = True
        return away
    broken = "Timeout" in name or "Protocol" in name or "ReadError" in name
    detail = {"type": name, "retryable": broken}
    return ExecutionFailed(f"{who}: the model's plugin failed with {name}", detail=detail)


def _status(error: Exception) -> int | None:
    found: Any = getattr(error, "status_code", None) or getattr(_response(error), "status_code", None)
    return found if isinstance(found, int) and 400 <= found < 600 else None


def _headers(error: Exception) -> Mapping[str, str]:
    headers: Any = getattr(_response(error), "headers", None) or {}
    return {str(name).lower(): str(text) for name, text in headers.items()}


def _body(error: Exception) -> bytes:
    content: Any = getattr(_response(error), "_content", None)  # .content raises where a stream was not read
    return content if isinstance(content, bytes) else b""


def _response(error: Exception) -> Any:
    return getattr(error, "response", None)
