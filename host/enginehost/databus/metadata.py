"""What requests and replies say in their ``metadata``: JSON, which peers may leave out or ignore.

A request::

    {"incarnation": "…", "timeout": 5.0, "traceparent": "…", "tracestate": "…", "caller": "alice",
     "agents": ["first", "second"], "decide": {"question": "…", "decision": "approve"}, "question": "…",
     "from": "…", "reply_partition": "eh.…", "ack": true, "hold": true, "stream": true, "credit": 64,
     "batch": true, "control": "cancel" | "credit" | "go" | "status", "seq": 7, "key": "…", "sig": "…"}

A reply::

    {"provider": "…", "incarnation": "…", "duration_ms": 0.2, "sequence": 1, "accepted": true,
     "items": 3, "final": false, "error": {"code", "message", "detail"}, "to": "…", "key": "…",
     "sig": "…"}

``to``: the id of the key that signed the request, in the signed reply to a signed one: nobody else's request
under the same id is answered so. ``items``: the result is an array of so many items of a stream; only a
requester gets it that says ``batch``. ``timeout`` is relative (seconds): clocks of two machines may be an
hour apart. A request with ``control`` is about the running call of its ``request_id``. One with ``hold`` runs
when ``go`` follows its acknowledgement: then whoever asked knows that it may have run, whatever happens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from enginehost.databus.port import DEFAULT_PARTITION
from enginehost.trace_context import NO_TRACE, TraceContext, read_trace
from enginehost.values import MalformedJson, decode

CANCEL = "cancel"
CREDIT = "credit"
GO = "go"
"""The acknowledgement of a call with ``hold`` has come: it may run."""
STATUS = "status"
"""Asks for the acknowledgement of a running call, or for the final reply of an ended one, once more."""
OTHER_START = "incarnation"
"""Why a host refuses a request: an earlier start of it was meant. ``reason`` in the error's detail."""
UNKNOWN_ID = "unknown-id"
"""Likewise: it has no function of that id."""
MOST_AGENTS = 101
"""Names in a chain of agents that are read: one more than any host asks through."""
MOST_CREDIT = 65_536
"""Items of a stream that a requester may allow at once."""

UNKNOWN_CONTROL = "?"
"""A word of control that is not known here: such a request is no call, whatever it is."""
_CONTROLS = (CANCEL, CREDIT, GO, STATUS)
_INCARNATION = re.compile(r"[0-9a-f]{32}")


def partition_of(incarnation: str) -> str:
    """The DDS partition of a host (or client) that was started as ``incarnation``."""
    return f"eh.{incarnation}"


def is_incarnation(text: Any) -> bool:
    """Whether ``text`` is an incarnation of ours: a peer's other words never become a partition."""
    return isinstance(text, str) and _INCARNATION.fullmatch(text) is not None


class RequestMetadata(NamedTuple):
    """What we read of a request's ``metadata``; a peer may leave all of it out, or put other things there.

    ``timeout`` in seconds; ``trace`` is what ``traceparent`` and ``tracestate`` say, as W3C Trace Context has
    them; ``incarnation`` is the start of the host that the requester means; ``requester`` is the incarnation
    of the requester, where it has one; ``on_behalf_of`` names whom it calls for, as it says itself;
    ``agents`` are those that asked each other, from the first one to the one that asks; ``decide`` is what a
    person decided about a question of the agent (``agents/chain.py``); ``question`` is the same where a
    question to an agent is asked again;
    ``credit`` is how many items of a stream may be on their way, or with ``control`` how many more.
    """

    timeout: float | None = None
    trace: TraceContext = NO_TRACE
    incarnation: str = ""
    requester: str = ""
    on_behalf_of: str = ""
    reply_partition: str = DEFAULT_PARTITION
    ack: bool = False
    hold: bool = False
    stream: bool = False
    credit: int = 0
    batch: bool = False
    control: str = ""
    seq: int = 0
    key: str = ""
    agents: tuple[str, ...] = ()
    decide: dict[str, Any] | None = None
    question: str = ""

    @classmethod
    def read(cls, text: bytes) -> Self:
        """The metadata in ``text``; what is not understood counts as not said."""
        found = _object(text)
        if not found:
            return cls()
        timeout: Any = found.get("timeout")
        requester = said if is_incarnation(said := _text(found, "from")) else ""
        return cls(
            timeout=float(timeout) if type(timeout) in (int, float) and 0 < timeout < 1e9 else None,
            trace=read_trace(str(found.get("traceparent", "")), str(found.get("tracestate", ""))),
            incarnation=_text(found, "incarnation"),
            requester=requester,
            on_behalf_of=_text(found, "caller")[:200],
            reply_partition=_partition(found, requester),
            ack=found.get("ack") is True,
            hold=found.get("hold") is True,
            stream=found.get("stream") is True,
            credit=_number(found, "credit", MOST_CREDIT),
            batch=found.get("batch") is True,
            control=_control(found),
            seq=_number(found, "seq", 2**63),
            key=_text(found, "key"),
            agents=_agents(found),
            decide=said if isinstance(said := found.get("decide"), dict) else None,
            question=_text(found, "question")[:64],
        )


@dataclass(frozen=True, slots=True)
class ReplyMetadata:
    """What we read of a reply's ``metadata``. One that says nothing is the final one."""

    provider: str = ""
    incarnation: str = ""
    duration_ms: float = 0.0
    sequence: int = 0
    items: int = 0
    accepted: bool = False
    final: bool = True
    error: dict[str, Any] = field(default_factory=dict)
    to: str = ""
    key: str = ""

    @classmethod
    def read(cls, text: bytes) -> Self:
        """The metadata in ``text``; what is not understood counts as not said."""
        found = _object(text)
        if not found:
            return cls()
        duration: Any = found.get("duration_ms")
        error: Any = found.get("error")
        return cls(
            provider=_text(found, "provider"),
            incarnation=_text(found, "incarnation"),
            duration_ms=float(duration) if type(duration) in (int, float) else 0.0,
            sequence=_number(found, "sequence", 2**63),
            items=_number(found, "items", MOST_CREDIT),
            accepted=found.get("accepted") is True,
            final=found.get("final") is not False,
            error=error if isinstance(error, dict) else {},
            to=_text(found, "to"),
            key=_text(found, "key"),
        )


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = decode(text) if text else {}
    except MalformedJson:
        return {}
    return found if isinstance(found, dict) else {}


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _agents(found: dict[str, Any]) -> tuple[str, ...]:
    said: Any = found.get("agents")
    listed: list[Any] = said[:MOST_AGENTS] if isinstance(said, list) else []
    return tuple(name[:200] for name in listed if isinstance(name, str))


def _number(found: dict[str, Any], name: str, most: int) -> int:
    value = found.get(name)
    return min(value, most) if type(value) is int and value > 0 else 0


def _partition(found: dict[str, Any], requester: str) -> str:
    """The requester's own partition or the default one: nobody has replies sent to somebody else."""
    own = partition_of(requester) if requester else DEFAULT_PARTITION
    return own if found.get("reply_partition") == own else DEFAULT_PARTITION


def _control(found: dict[str, Any]) -> str:
    said = found.get("control")
    if said is None:
        return ""
    return said if said in _CONTROLS else UNKNOWN_CONTROL
