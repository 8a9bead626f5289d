"""Makes the replies to requests, signs them where the host signs, and counts what became of them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any

from enginehost.databus.capability import shorten
from enginehost.databus.guard import Guard
from enginehost.databus.identity import Identity
from enginehost.databus.metadata import RequestMetadata
from enginehost.databus.port import ExecutionReply, ExecutionRequest, Transport
from enginehost.databus.types import ID_BOUND, PROSE_BOUND
from enginehost.errors import EngineHostError, WaitsForPerson
from enginehost.values import LARGE, aside, encode

log = logging.getLogger("enginehost.databus")

ECHO_BOUND = 4_096
"""Characters of an id that are sent back: one that is longer than may be is refused, and kept until then."""

NEWS_BOUND = PROSE_BOUND - 2 * ID_BOUND
"""Bytes of the metadata of a failure; what a signature adds fits behind."""


@dataclass(slots=True, eq=False)
class ReturnAddress:
    """Whom a reply is for, without the request itself: its parameters may be large.

    ``requester`` is the requester's incarnation, ``key`` the id of the key that its good signature was made
    with, ``arrived`` when its request was taken (``perf_counter``).
    """

    request_id: str
    function_id: str
    source: str
    participant: str
    partition: str
    requester: str = ""
    key: str = ""
    arrived: float = field(default_factory=time.perf_counter)

    @classmethod
    def of(cls, request: ExecutionRequest, metadata: RequestMetadata) -> ReturnAddress:
        """Where the answer to a request goes."""
        return cls(
            request.request_id,
            request.function_id,
            request.source,
            request.participant or request.source,
            metadata.reply_partition,
            metadata.requester,
        )


class Replies:
    """Replies of one host. ``guard`` signs them; ``None``: they are not signed."""

    def __init__(self, transport: Transport, identity: Identity, guard: Guard | None) -> None:
        self.answered = 0
        self.lost = 0
        self._transport = transport
        self._identity = identity
        self._guard = guard

    def result(
        self, to: ReturnAddress, result: bytes, sequence: int = 1, *, final: bool = True, items: int = 0
    ) -> ExecutionReply:
        """A reply that carries a result, or ``items`` items of a stream (0: one, as it is)."""
        said = f'"sequence":{sequence},"items":{items},' if items else f'"sequence":{sequence},'
        return self._made(to, result, 0, "", self._metadata(to, f'{said}"final":{_JSON[final]}'))

    def accepted(self, to: ReturnAddress) -> ExecutionReply:
        """The reply that says that the request is this host's now."""
        return self._made(to, b"", 0, "", self._metadata(to, '"sequence":0,"accepted":true,"final":false'))

    def failure(self, to: ReturnAddress, failure: EngineHostError, sequence: int = 1) -> ExecutionReply:
        """The final reply of a call that failed or was refused."""
        said = f'"sequence":{sequence},"final":true,"error":'
        metadata = self._metadata(to, said + _told(failure.to_json()))
        if len(metadata) > NEWS_BOUND and (questions := in_short(failure)):
            metadata = self._metadata(to, said + _told(questions))
        if len(metadata) > NEWS_BOUND:
            short: dict[str, Any] = {"code": failure.code, "message": shorten(failure.message, 1024)}
            metadata = self._metadata(to, said + _told(short))
        if len(metadata) > NEWS_BOUND:  # a message of characters that JSON writes as six each
            metadata = self._metadata(to, said + _told({"code": failure.code, "message": ""}))
        return self._made(to, b"", failure.row.bus, shorten(failure.message, PROSE_BOUND), metadata)

    async def send(self, reply: ExecutionReply, to: ReturnAddress, *, last: bool = True) -> bool:
        """Have a reply written; whether that was possible. ``last``: it ends its call."""
        guard = self._guard
        if guard is not None and guard.signs:
            large = len(reply.result) >= LARGE
            sign = guard.sign_reply
            reply = await aside(sign, reply, to.requester) if large else sign(reply, to.requester)
        sent = await self._transport.reply(reply, to.source, to.partition)
        if not sent:
            self.lost += 1
            log.warning("a reply on the databus was given up: its readers do not take it")
        elif last:
            self.answered += 1
        return sent

    def _made(
        self, to: ReturnAddress, result: bytes, status: int, message: str, metadata: bytes
    ) -> ExecutionReply:
        return ExecutionReply(
            request_id=to.request_id[:ECHO_BOUND],
            function_id=to.function_id,
            result=result,
            status=status,
            error_message=message,
            timestamp=time.time_ns() // 1_000_000,
            metadata=metadata,
        )

    def _metadata(self, to: ReturnAddress, said: str) -> bytes:
        """JSON by hand: three short members that need no escapes, of each of many small replies."""
        identity = self._identity
        milliseconds = (time.perf_counter() - to.arrived) * 1e3
        key = f'"to":"{to.key}",' if to.key else ""
        return (
            f'{{"provider":"{identity.host_id}","incarnation":"{identity.incarnation}",{key}'
            f'"duration_ms":{milliseconds:.3f},{said}}}'
        ).encode()


_JSON = {True: "true", False: "false"}


_SHORT = 300


def in_short(failure: EngineHostError) -> dict[str, Any]:
    """An agent's answer that it waits for a person, with as much as its first question needs.

    Empty where it says something else. The other questions come when the first one is decided.
    """
    detail = failure.detail
    asked: Any = detail.get("questions")
    if not isinstance(failure, WaitsForPerson) or not isinstance(asked, list) or not asked:
        return {}
    first: Any = asked[0]
    question = {
        "id": first.get("id", ""),
        "tool": shorten(str(first.get("tool", "")), 128),
        "text": shorten(str(first.get("text", "")), _SHORT),
    }
    told = {
        "reason": detail.get("reason", ""),
        "conversation_id": detail.get("conversation_id", ""),
        "questions": [question],
    }
    return {"code": failure.code, "message": shorten(failure.message, _SHORT), "detail": told}


def _told(error: dict[str, Any]) -> str:
    return encode(error).decode()
