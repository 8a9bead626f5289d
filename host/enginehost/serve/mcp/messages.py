"""Messages as they come: read, told apart, and checked against what their revision wants of them."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from typing import Any, NamedTuple

from enginehost.call import LOG_LEVELS
from enginehost.serve.mcp.wire import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    META_CAPABILITIES,
    META_LOG_LEVEL,
    META_VERSION,
    MODERN,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Fault,
    RequestId,
)
from enginehost.values import MalformedJson, decode

NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose header ``Mcp-Name`` repeats a parameter."""
_LARGEST_ID = 2**63
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


class Request(NamedTuple):
    """A message that wants an answer; a notification has no ``id``."""

    method: str
    params: dict[str, Any]
    id: RequestId | None

    @property
    def meta(self) -> Mapping[str, Any]:
        """``params._meta``."""
        found = self.params.get("_meta")
        return found if isinstance(found, dict) else {}

    @property
    def progress_token(self) -> str | int | None:
        """What progress is to be told with, where it is wanted."""
        token: Any = self.meta.get("progressToken")
        return token if isinstance(token, str) or type(token) is int else None


class Response(NamedTuple):
    """The other side's answer to a request of ours."""

    id: RequestId
    result: Any
    error: Any


def parsed(data: bytes) -> Any:
    """The JSON value of a message. Raises :class:`Fault`."""
    try:
        return decode(data)
    except MalformedJson as error:
        raise Fault(PARSE_ERROR, f"the message is no JSON: {error.message}") from None


def message_of(found: Any) -> Request | Response:
    """A message. Raises :class:`Fault` for what is none."""
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        raise Fault(INVALID_REQUEST, 'a message is a JSON object with "jsonrpc": "2.0"')
    method: Any = found.get("method")
    request_id: Any = found.get("id")
    if "id" in found and not _is_id(request_id):
        raise Fault(INVALID_REQUEST, "id must be a text or a whole number")
    if method is None and "id" in found and ("result" in found or "error" in found):
        return Response(request_id, found.get("result"), found.get("error"))
    if not isinstance(method, str):
        raise Fault(INVALID_REQUEST, "method must be a text")
    params: Any = found.get("params", {})
    if not isinstance(params, dict):
        raise Fault(INVALID_PARAMS, "params must be an object")
    return Request(method, params, request_id)


def _is_id(value: Any) -> bool:
    return isinstance(value, str) or (type(value) is int and -_LARGEST_ID < value < _LARGEST_ID)


def check_envelope(request: Request) -> Mapping[str, Any]:
    """What the client can, as each request says it where there is no handshake. Raises :class:`Fault`."""
    missing = [key for key in (META_VERSION, META_CAPABILITIES) if key not in request.meta]
    if missing:
        raise Fault(INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}")
    version: Any = request.meta[META_VERSION]
    if not isinstance(version, str):
        raise Fault(INVALID_PARAMS, f"{META_VERSION} must be a text")
    if version != MODERN:
        raise unsupported(version)
    capabilities: Any = request.meta[META_CAPABILITIES]
    return capabilities if isinstance(capabilities, dict) else {}


def level_in(request: Request) -> str:
    """From which level on the client of a request wants to read what functions say; empty: nothing."""
    level: Any = request.meta.get(META_LOG_LEVEL)
    return level if isinstance(level, str) and level in LOG_LEVELS else ""


def unsupported(version: str) -> Fault:
    """The error for a revision that is not spoken here."""
    data = {"supported": [MODERN], "requested": version[:100]}
    return Fault(UNSUPPORTED_VERSION, "this revision of the protocol is not spoken here", data)


def check_headers(request: Request, headers: Mapping[bytes, bytes]) -> None:
    """Raise :class:`Fault` where headers say something else than the body (Streamable HTTP, 2026-07-28)."""
    told = request.meta.get(META_VERSION)
    if META_VERSION in request.meta and _text(headers.get(b"mcp-protocol-version")) != told:
        raise Fault(HEADER_MISMATCH, "the header MCP-Protocol-Version is not what the body says")
    if _text(headers.get(b"mcp-method")) != request.method:
        raise Fault(HEADER_MISMATCH, "the header Mcp-Method is not the body's method")
    named = request.params.get(NAMED_BY.get(request.method, ""))
    if named is not None and decoded_header(headers.get(b"mcp-name")) != named:
        raise Fault(HEADER_MISMATCH, f"the header Mcp-Name is not the body's {NAMED_BY[request.method]}")


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.strip(b" \t").decode("latin-1")


def decoded_header(header: bytes | None) -> str | None:
    """The text of a header that may be in base64: ``=?base64?…?=``."""
    value = _text(header)
    match = _ENCODED.fullmatch(value) if value is not None else None
    if match is None:
        return value
    try:
        return b64decode(match[1], validate=True).decode()
    except (NotBase64, UnicodeDecodeError):
        return None
