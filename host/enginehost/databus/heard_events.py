"""What monitors hear on the bus, as plain values: sights of steps, components, lines of logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from enginehost.databus.chain_words import MEANING
from enginehost.databus.log_events import LOGS
from enginehost.databus.types import (
    CHAIN_EVENT,
    COMPONENT_LIFECYCLE_EVENT,
    COMPONENT_STATE,
    COMPONENT_TYPE,
    FUNCTION_CAPABILITY,
    MONITORING_EVENT,
)
from enginehost.databus.unified import CHAIN, EVENT
from enginehost.monitoring.seen import Seen, code_of

AGENTS = "AgentCapability"
TOPICS_HEARD = (
    FUNCTION_CAPABILITY.name,
    AGENTS,
    COMPONENT_LIFECYCLE_EVENT.name,
    CHAIN_EVENT.name,
    MONITORING_EVENT.name,
    LOGS,
    EVENT,
)
"""What a monitor reads: who is there, what becomes of them, what they do and say."""


VANISHED = "its host is not heard of any more"
GONE = "it is not heard of any more"
"""Of a host or an interface: of anything else it says nothing."""
IMPLIED = "has functions here"
"""Of a host that nothing else is known of: it told of itself before this monitor listened."""


@dataclass(frozen=True, slots=True)
class ComponentSeen:
    """A component as it is now; ``time`` in seconds since 1970, ``state`` in Genesis's words."""

    id: str
    kind: str
    name: str
    state: str
    host: str
    service: str = ""
    reason: str = ""
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class LogSeen:
    """A line of a host's log."""

    time: float
    host: str
    level: str
    message: str


Heard = Seen | ComponentSeen | LogSeen


def heard(topic: str, values: Mapping[str, Any] | None, key: str = "", lost: bool = False) -> Iterator[Heard]:
    """What a sample tells; ``values`` is ``None`` where the instance ``key`` has ended.

    ``lost``: because its program is not heard of any more.

    Peers choose what stands in it: what makes no sense tells nothing.
    """
    try:
        if values is not None:
            yield from _READERS[topic](values)
        elif topic in (FUNCTION_CAPABILITY.name, AGENTS):
            yield ComponentSeen(key, "", "", "OFFLINE", "", reason=VANISHED if lost else "")
        elif topic == COMPONENT_LIFECYCLE_EVENT.name and lost:
            yield ComponentSeen(key, "", "", "OFFLINE", "", reason=GONE)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return


def _capability(values: Mapping[str, Any]) -> Iterator[Heard]:
    service, when = values["service_name"], values["last_seen"] / 1000
    host = values["provider_id"]
    if host:
        yield ComponentSeen(host, "SERVICE", service, "READY", host, service, IMPLIED, when)
    yield ComponentSeen(values["function_id"], "FUNCTION", values["name"], "READY", host, service, time=when)


def _agent(values: Mapping[str, Any]) -> Iterator[Heard]:
    kind = "PRIMARY_AGENT" if values["default_capable"] else "SPECIALIZED_AGENT"
    host = str(_object(_object(values["model_info"]).get("enginehost")).get("host", ""))
    service, when = values["service_name"], values["last_seen"] / 1000
    yield ComponentSeen(values["agent_id"], kind, values["name"], "READY", host, service, time=when)


def _component(values: Mapping[str, Any]) -> Iterator[Heard]:
    if values["event_category"] not in _OF_NODES:
        return
    about = _object(values["capabilities"])
    yield ComponentSeen(
        values["component_id"],
        COMPONENT_TYPE.enumerators[values["component_type"]],
        str(about.get("name") or about.get("service_name") or ""),
        COMPONENT_STATE.enumerators[values["new_state"]],
        values["source_id"],
        str(about.get("service_name", "")),
        values["reason"],
        values["timestamp"] / 1000,
    )


def _chain(values: Mapping[str, Any]) -> Iterator[Heard]:
    kind, ends = MEANING.get(values["event_type"], (None, False))
    if kind is None or not values["chain_id"] or not values["call_id"]:
        return
    when, target = values["timestamp"] / 1000, values["target_id"]
    yield Seen(
        chain=values["chain_id"],
        call=values["call_id"],
        parent=values["query_id"],
        kind=str(kind),
        name=target if target != values["function_id"] else "",
        host=values["interface_id"],
        source=values["source_id"],
        function_id=values["function_id"],
        started=0.0 if ends else when,
        ended=when if ends else 0.0,
        outcome=code_of(values["status"]) if ends else "",
    )


def _details(values: Mapping[str, Any]) -> Iterator[Heard]:
    facts = _object(values["metadata"])
    seconds, ended, about = float(facts["duration_ms"]) / 1000, values["timestamp"] / 1000, facts.get("about")
    yield Seen(
        chain=str(facts["chain_id"]),
        call=str(facts["call_id"]),
        parent=_text(facts, "parent_id"),
        kind=_text(facts, "kind"),
        name=_text(facts, "name"),
        host=_text(facts, "host"),
        agent=_text(facts, "agent"),
        version=_text(facts, "version"),
        start=_text(facts, "incarnation"),
        function_id=values["entity_id"],
        started=ended - seconds,
        ended=ended,
        seconds=seconds,
        outcome=_text(facts, "code"),
        about=orjson.dumps(about).decode() if about else "",
        given=values["call_data"],
        gave=values["result_data"],
    )


def _unified(values: Mapping[str, Any]) -> Iterator[Heard]:
    if values["kind"] != CHAIN:
        return
    payload = _object(values["payload"])
    known = {name: payload.get(name, 0 if name == "status" else "") for name in _MEMBERS}
    yield from _chain(known | {"timestamp": values["timestamp"]})
    if "duration_ms" in payload and "kind" in payload:
        more = {"metadata": payload, "entity_id": known["function_id"], "call_data": "", "result_data": ""}
        yield from _details(more | {"timestamp": values["timestamp"]})


def _log(values: Mapping[str, Any]) -> Iterator[Heard]:
    name = values["source_name"] or values["source_id"]
    yield LogSeen(values["timestamp"] / 1000, name, values["level_name"], values["message"])


_OF_NODES = (0, 2, 3, 4, 5)
"""Event categories that are about a component, and no edge or endpoint."""
_MEMBERS = tuple(member.name for member in CHAIN_EVENT.members if member.name != "timestamp")
_READERS = {
    FUNCTION_CAPABILITY.name: _capability,
    AGENTS: _agent,
    COMPONENT_LIFECYCLE_EVENT.name: _component,
    CHAIN_EVENT.name: _chain,
    MONITORING_EVENT.name: _details,
    LOGS: _log,
    EVENT: _unified,
}


def _object(text: Any) -> dict[str, Any]:
    found = orjson.loads(text) if isinstance(text, str) and text else text
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _text(facts: Mapping[str, Any], name: str) -> str:
    value = facts.get(name, "")
    return value if isinstance(value, str) else ""
