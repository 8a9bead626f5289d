"""The JSON-RPC binding (A2A 1.0, section 9)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple, cast

from enginehost.errors import EngineHostError
from enginehost.serve.a2a.faults import INVALID_PARAMS, INVALID_REQUEST, PARSE, A2aFault, jsonrpc_error
from enginehost.values import MalformedJson, decode, write

STREAMS = frozenset({"SendStreamingMessage", "SubscribeToTask"})
METHODS = STREAMS | {
    "SendMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
}
_LARGEST_ID = 2**63


class Request(NamedTuple):
    """A call: its ``id`` as it is given back."""

    id: Any
    method: str
    params: Mapping[str, Any]


class Malformed(Exception):
    """What came is no call; ``body`` is the answer."""

    def __init__(self, request_id: Any, fault: A2aFault) -> None:
        super().__init__(fault.message)
        self.body = failed(request_id, fault)


def request_in(data: bytes) -> Request:
    """The call in a body. Raises :class:`Malformed`."""
    try:
        found: Any = decode(data)
    except MalformedJson as error:
        raise Malformed(None, A2aFault(PARSE, f"the body is no JSON: {error.message}")) from None
    if not isinstance(found, dict):
        raise Malformed(None, A2aFault(INVALID_REQUEST, "the body must be one JSON-RPC request object"))
    members = cast("dict[str, Any]", found)
    given = members.get("id")
    if not (given is None or isinstance(given, str) or _is_number(given)):
        raise Malformed(None, A2aFault(INVALID_REQUEST, "id must be a text, a whole number or null"))
    if members.get("jsonrpc") != "2.0" or not isinstance(members.get("method"), str):
        text = 'a request has "jsonrpc": "2.0" and a method'
        raise Malformed(given, A2aFault(INVALID_REQUEST, text))
    params = members.get("params", {})
    if not isinstance(params, dict):
        raise Malformed(given, A2aFault(INVALID_PARAMS, "params must be an object"))
    return Request(given, members["method"], cast("dict[str, Any]", params))


def _is_number(given: Any) -> bool:
    return type(given) is int and abs(given) <= _LARGEST_ID


def answered(request_id: Any, result: Any) -> bytes:
    """An answer with a result."""
    return write({"jsonrpc": "2.0", "id": request_id, "result": result})


def failed(request_id: Any, error: EngineHostError) -> bytes:
    """An answer with an error."""
    return write({"jsonrpc": "2.0", "id": request_id, "error": jsonrpc_error(error)})


async def enveloped(
    request_id: Any, updates: AsyncGenerator[dict[str, Any], None]
) -> AsyncGenerator[bytes, None]:
    """Each update as an answer to the call."""
    async with aclosing(updates):
        async for update in updates:
            yield answered(request_id, update)
