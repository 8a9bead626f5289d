"""The words of the protocol: revisions, error codes, the frames of JSON-RPC.

https://modelcontextprotocol.io/specification, revisions 2024-11-05 to 2025-11-25 (which begin with
``initialize``) and 2026-07-28 (where each request says what its client is).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson

import enginehost
from enginehost.errors import InvalidArguments
from enginehost.values import write

MODERN = "2026-07-28"
"""The revision without a handshake."""
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Those with one, the newest first."""
BATCHES = "2025-03-26"
"""The one revision in which a message may be an array of messages."""

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_SERVER = "io.modelcontextprotocol/serverInfo"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
RESOURCE_NOT_FOUND = -32002
"""In the revisions with a handshake; the later one says ``INVALID_PARAMS``."""
HTTP_STATUS: Mapping[int, int] = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The status of an answer that is an error, in the revision without a handshake; 200 for all others."""

RequestId = str | int


class Fault(Exception):
    """A message that is answered with an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


@contextmanager
def fault_of(code: int) -> Generator[None]:
    """Answer arguments that do not fit with an error of JSON-RPC, where there is no result to say it."""
    try:
        yield
    except InvalidArguments as error:
        raise Fault(code, error.message, error.to_json()) from error


class InputRequired(bytes):
    """A result that says what is needed before there is one: already with all that belongs to it."""


def server_info() -> dict[str, str]:
    """Who we are, as the protocol says it."""
    return {"name": "enginehost", "version": enginehost.__version__}


_COMPLETE = write({"resultType": "complete", "_meta": {META_SERVER: server_info()}})[1:-1]


def stamped(result: bytes) -> bytes:
    """A result (a JSON object) with what the revision without a handshake wants of each."""
    if type(result) is InputRequired:
        return result
    return b"{%b%b%b" % (_COMPLETE, b"" if result == b"{}" else b",", result[1:])


def answer(request_id: RequestId, result: bytes) -> bytes:
    """The answer with a result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(request_id), result)


def failure(request_id: RequestId | None, fault: Fault) -> bytes:
    """The answer with an error."""
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (orjson.dumps(request_id), write(error))


def notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """A message that is not answered."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return write(message if params is None else message | {"params": params})


def request_of(request_id: RequestId, method: str, params: Mapping[str, Any]) -> bytes:
    """A message that the client is to answer."""
    return write({"jsonrpc": "2.0", "id": request_id, "method": method, "params": dict(params)})
