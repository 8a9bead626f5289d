"""``GET /v1/network``: hosts, services, functions, agents, callers, and who called whom, for one reader."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from enginehost.agents.facts import facts_of
from enginehost.caller import LOCAL, Caller
from enginehost.databus.directory import KIND as OTHERS
from enginehost.errors import WaitsForPerson
from enginehost.monitoring.network import Count, Edge

if TYPE_CHECKING:
    from enginehost.catalog import Entry
    from enginehost.databus import BusAgent
    from enginehost.host import Host


def picture(host: Host, caller: Caller) -> dict[str, Any]:
    """Nodes and edges that ``caller`` may know: an edge is there where both its ends are.

    Who called is told to those only who can show who they are, where the host knows callers at all.
    """
    entries = {entry.name: entry for entry in host.functions(caller)}
    others = {agent.function: agent for agent in (host.bus.agents() if host.bus is not None else ())}
    host_id, start = host.place()
    nodes: dict[str, dict[str, Any]] = {f"host:{host_id}": {"kind": "host", "name": host_id, "start": start}}
    edges: dict[tuple[str, str], dict[str, Any]] = {}
    for name, entry in entries.items():
        nodes |= dict(_node(host, name, entry, host_id, others.get(name)))
    for called, count in host.called().items():
        edge = _listed(host, called)
        if shown := _edge(edge, count, entries, others, _tells_callers(host, caller)):
            ends = shown["from"], shown["to"]
            edges[ends] = _summed(edges[ends], shown) if ends in edges else shown
            if edge.source_kind == "caller":
                nodes.setdefault(shown["from"], {"kind": "caller", "name": edge.source})
            if edge.target_kind == "model":
                nodes.setdefault(shown["to"], {"kind": "model", "name": edge.target})
    return {
        "time": _moment(time.time()),
        "host": host_id,
        "nodes": [{"id": node_id, **node} for node_id, node in sorted(nodes.items())],
        "edges": [one for _, one in sorted(edges.items())],
        "decisions": [
            {"agent": one.agent, "decision": one.decision, "chain": one.chain, "of": one.of}
            | {"time": _moment(one.when)}
            for one in host.decided()
            if _whole(host, one.agent) in entries
        ],
        "recorder": host.recorded(),
    }


def _node(
    host: Host, name: str, entry: Entry, host_id: str, other: BusAgent | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The function or agent, and its service; ``other``: what the databus says of it as an agent."""
    there = entry.record.kind == OTHERS
    if there:
        host_id = other.host if other is not None else ""
    own = entry.record.display_name if there else host.settings.databus.service
    service = entry.function.service or own
    stats, agent = host.stats(name), facts_of(entry.record.engine)
    yield f"service:{service}", {"kind": "service", "name": service, "host": host_id}
    calls = stats.calls if stats is not None else 0
    about: dict[str, Any] = {
        "name": name,
        "service": service,
        "host": host_id,
        "state": str(entry.record.state),
        "calls": calls,
        "errors": stats.errors if stats is not None else 0,
        "waits": stats.outcomes.get(WaitsForPerson.code, 0) if stats is not None else 0,
        "running": stats.running if stats is not None else 0,
    }
    if agent is not None:
        about |= {"default_capable": agent.default_capable, "specializations": list(agent.specializations)}
    elif other is not None:
        about |= {"default_capable": other.default_capable, "specializations": list(other.specializations)}
    kind = "agent" if agent is not None or other is not None else "function"
    yield f"{kind}:{name}", {"kind": kind, **about}


def _edge(
    edge: Edge, count: Count, entries: dict[str, Entry], others: Mapping[str, BusAgent], callers: bool
) -> dict[str, Any] | None:
    source, target = edge.source, edge.target
    if edge.target_kind == "function" and target not in entries:
        return None
    if edge.source_kind == "caller" and not callers:
        return None
    if edge.source_kind != "caller" and source not in entries:
        return None
    return {
        "from": f"{_kind(edge.source_kind, source, entries, others)}:{source}",
        "to": f"{_kind(edge.target_kind, target, entries, others)}:{target}",
        "calls": count.calls,
        "errors": count.errors,
        "waits": count.waits,
        "last": _moment(count.last),
    }


def _listed(host: Host, edge: Edge) -> Edge:
    """An edge with functions as they are listed."""
    source = edge.source if edge.source_kind == "caller" else _whole(host, edge.source)
    target = _whole(host, edge.target) if edge.target_kind == "function" else edge.target
    return edge._replace(source=source, target=target)


def _whole(host: Host, name: str) -> str:
    """The name under which a function is listed; agents call those of other hosts by short ones."""
    entry = host.catalog.get(name)
    return entry.name if entry is not None else name


def _summed(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What two names of one function were counted under."""
    counts = {name: one[name] + other[name] for name in ("calls", "errors", "waits")}
    return one | counts | {"last": max(one["last"], other["last"])}


def _kind(kind: str, name: str, entries: dict[str, Entry], others: Mapping[str, BusAgent]) -> str:
    if kind in ("caller", "model"):
        return kind
    own = name in entries and facts_of(entries[name].record.engine) is not None
    return "agent" if own or name in others else "function"


def _tells_callers(host: Host, caller: Caller) -> bool:
    return caller is LOCAL or caller.authenticated or not host.settings.authenticates


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
