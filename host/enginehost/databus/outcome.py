"""What an answer from the bus means to the caller: items, an error, or that nobody knows whether it ran."""

from __future__ import annotations

from typing import Any

from enginehost.databus.exchange import Exchange, items_of
from enginehost.databus.metadata import OTHER_START, UNKNOWN_ID, ReplyMetadata
from enginehost.databus.moving import NotRun
from enginehost.databus.port import ExecutionReply
from enginehost.errors import (
    ERROR_TABLE,
    EngineHostError,
    EngineUnavailable,
    OutcomeUnknown,
    Overloaded,
    ResultInvalid,
    error_from_json,
)
from enginehost.values import LARGE, MalformedJson, aside, decode

_NOT_MEANT = (OTHER_START, UNKNOWN_ID)
_REFUSED = (Overloaded, EngineUnavailable)
_BY_STATUS = {row.bus: code for code, row in ERROR_TABLE.items()}


def unanswered(exchange: Exchange, *, moved: bool, closed: bool) -> NotRun | OutcomeUnknown:
    """What a call ends with whose provider went; ``closed``: because this program leaves the bus.

    ``moved``: that nothing was accepted is known, so that another replica may be asked.
    """
    ask, host = exchange.ask, exchange.provider.host_id
    if closed:
        left = f"{ask.name}: this program left the databus before the answer came; the call may have run"
        return OutcomeUnknown(left)
    if ask.repeatable or (moved and not exchange.accepted):
        gone = EngineUnavailable(f"{ask.name}: its provider {host} went", reason="gone")
        return NotRun(gone, vanished=True)
    return OutcomeUnknown(f"{ask.name}: its provider {host} went before it answered; the call may have run")


def failed(
    exchange: Exchange, reply: ExecutionReply, metadata: ReplyMetadata, *, moved: bool
) -> NotRun | EngineHostError:
    """What a call ends with whose final reply is no good one. ``moved`` as in :func:`unanswered`."""
    error = _error(reply, metadata)
    if error.detail.get("reason") in _NOT_MEANT:
        return NotRun(error, vanished=True)
    unrun = exchange.ask.repeatable or (moved and not exchange.accepted)
    return NotRun(error) if unrun and isinstance(error, _REFUSED) else error


async def items_in(name: str, reply: ExecutionReply, metadata: ReplyMetadata) -> list[Any]:
    """The items of a stream in one reply. Raises :class:`ResultInvalid`."""
    large = len(reply.result) >= LARGE
    try:
        value = await aside(decode, reply.result) if large else decode(reply.result)
    except MalformedJson as wrong:
        raise no_json(name, wrong) from None
    return items_of(value, metadata)


def no_json(name: str, wrong: MalformedJson) -> ResultInvalid:
    """The error for an answer that cannot be read: it is the provider's fault, not the caller's."""
    return ResultInvalid(f"{name}: its provider answered with what is no JSON: {wrong.message}")


def _error(reply: ExecutionReply, metadata: ReplyMetadata) -> EngineHostError:
    """What the provider answered instead of a result."""
    if metadata.error:
        return error_from_json(metadata.error)
    code = _BY_STATUS.get(reply.status, "execution_failed")
    message = reply.error_message or f"its provider answered with status {reply.status}"
    return error_from_json({"code": code, "message": message})
