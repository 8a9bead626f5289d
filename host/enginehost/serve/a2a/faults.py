"""What an agent answers when it cannot do what is asked: the errors of A2A 1.0 (sections 3.3.2 and 5.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from enginehost.errors import EngineHostError, InvalidRequest, TooLarge, UnknownSession, bounded

DOMAIN = "a2a-protocol.org"
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


class Kind(NamedTuple):
    """How one error reads on each binding: ``http`` status, ``grpc`` status name, and its ``reason``."""

    code: int
    http: int
    grpc: str
    reason: str


TASK_NOT_FOUND = Kind(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND")
TASK_NOT_CANCELABLE = Kind(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE")
NO_PUSH = Kind(-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED")
UNSUPPORTED = Kind(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
CONTENT_TYPE = Kind(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED")
NO_EXTENDED_CARD = Kind(-32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
VERSION = Kind(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED")
INVALID_PARAMS = Kind(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS")
INVALID_REQUEST = Kind(-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST")
METHOD_NOT_FOUND = Kind(-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND")
PARSE = Kind(-32700, 400, "INVALID_ARGUMENT", "INVALID_REQUEST")
INTERNAL = Kind(-32603, 500, "INTERNAL", "INTERNAL_ERROR")

_GRPC_OF_HTTP = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class A2aFault(EngineHostError):
    """An error of the protocol; ``kind`` says which."""

    def __init__(self, kind: Kind, message: str, *, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, detail=detail)
        self.kind = kind


def fault_of(error: EngineHostError) -> A2aFault:
    """The protocol's error for one of the host's; what the protocol has none for keeps the host's codes."""
    if isinstance(error, A2aFault):
        return error
    if isinstance(error, UnknownSession):
        return A2aFault(TASK_NOT_FOUND, "there is no such task")
    if isinstance(error, InvalidRequest | TooLarge):
        return A2aFault(INVALID_PARAMS, error.message, detail=error.detail)
    row = error.row
    kind = Kind(row.jsonrpc, row.http, _GRPC_OF_HTTP.get(row.http, "INTERNAL"), error.code.upper())
    return A2aFault(kind, error.message, detail=error.detail)


def details(fault: A2aFault) -> list[dict[str, Any]]:
    """The typed details that stand beside every error (google.rpc.ErrorInfo, whose metadata are texts)."""
    metadata = {name: value if isinstance(value, str) else _text(value) for name, value in _shown(fault)}
    return [{"@type": _ERROR_INFO, "reason": fault.kind.reason, "domain": DOMAIN, "metadata": metadata}]


def jsonrpc_error(error: EngineHostError) -> dict[str, Any]:
    """The ``error`` of a JSON-RPC answer."""
    fault = fault_of(error)
    return {"code": fault.kind.code, "message": bounded(fault.message), "data": details(fault)}


def rest_error(error: EngineHostError) -> tuple[int, dict[str, Any]]:
    """HTTP status and body (google.rpc.Status as JSON) of an answer of the REST binding."""
    fault = fault_of(error)
    kind = fault.kind
    status = {"code": kind.http, "status": kind.grpc, "message": bounded(fault.message)}
    return kind.http, {"error": status | {"details": details(fault)}}


def _shown(fault: A2aFault) -> list[tuple[str, Any]]:
    return list(bounded(fault.detail).items())


def _text(value: Any) -> str:
    from enginehost.values import encode

    return encode(value).decode()
