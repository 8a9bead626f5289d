"""Errors as clients of OpenAI's API read them: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

from typing import Any

from enginehost.errors import EngineHostError, InvalidRequest, bounded
from enginehost.serve.problem import HeaderList, HttpRefusal, problem_headers, status_of
from enginehost.values import encode

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_SERVER = 500


class Unsupported(InvalidRequest):
    """A member of the request that is wrong, or that is not done here; ``param`` names it."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message, detail={"param": param})


def unknown_model(name: str) -> HttpRefusal:
    """The refusal for a model that is not there, or not for this caller."""
    error = HttpRefusal(
        404, f"there is no model {name[:200]!r} here; GET /v1/models lists those that there are"
    )
    error.detail |= {"param": "model", "reason": "model_not_found"}
    return error


def error_body(error: EngineHostError) -> bytes:
    """The body of an answer that is an error."""
    status = status_of(error)
    kind = _TYPES.get(status, "server_error" if status >= _SERVER else "invalid_request_error")
    told: dict[str, Any] = {
        "message": bounded(error.message),
        "type": kind,
        "param": error.detail.get("param"),
        "code": error.detail.get("reason") or error.code,
    }
    if isinstance(hint := error.detail.get("hint"), str):
        told["message"] = f"{told['message']} ({bounded(hint)})"
    return encode({"error": told})


def error_headers(error: EngineHostError) -> HeaderList:
    """Its headers, without the length."""
    rest = [(name, value) for name, value in problem_headers(error) if name != b"content-type"]
    return [(b"content-type", b"application/json"), *rest]
