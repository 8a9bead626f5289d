"""What monitors are told of an interface: that it comes and goes, and what it asks whom.

An event never holds questions, answers or texts of errors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from enginehost.call import Call
from enginehost.databus.capability import shorten
from enginehost.databus.chain_words import WORDS
from enginehost.databus.components import JOINING, NAME_BOUND, OFFLINE, READY, Component
from enginehost.databus.lifecycle_events import (
    NODE_DISCOVERY,
    STATE_CHANGE,
    Transition,
    lifecycle_values,
    unified_values,
)
from enginehost.databus.outbox import Outbox
from enginehost.databus.port import Transport
from enginehost.databus.types import CHAIN_EVENT, COMPONENT_LIFECYCLE_EVENT, MONITORING_EVENT
from enginehost.databus.unified import CHAIN, EVENT, unified
from enginehost.errors import ERROR_TABLE
from enginehost.steps import StepKind, telling
from enginehost.values import encode

WORDS_HERE = WORDS[StepKind.REQUEST]
START, COMPLETE = WORDS_HERE.start, WORDS_HERE.end

LOOK_EVERY = 0.25
"""Seconds between two looks at who listens."""

LAST_EVENTS = 0.5
"""Seconds that the last events may take to be written."""

_FIRST_ERA = (COMPONENT_LIFECYCLE_EVENT.name, CHAIN_EVENT.name, MONITORING_EVENT.name)
_SEEN = frozenset({COMPONENT_LIFECYCLE_EVENT.name, EVENT})


class InterfaceEvents:
    """Tells of an interface until :meth:`close`. Made and used on the event loop.

    Who begins to listen is told that it is there. The chain of a question is the trace of its call, and the
    call's id is its own: what the agent does for it follows.
    """

    def __init__(self, transport: Transport, interface_id: str, name: str, *, second_era: bool) -> None:
        self.interface_id = interface_id
        self._transport = transport
        self._name = shorten(name, NAME_BOUND)
        self._second_era = second_era
        self._outbox = Outbox(transport)
        self._listened: frozenset[str] = frozenset()
        loop = asyncio.get_running_loop()
        running = (self._outbox.run(), self._keep_looking())
        self._tasks = [loop.create_task(one, name="databus-interface-events") for one in running]

    async def close(self) -> None:
        """Tell of the end, and of nothing more."""
        try:
            if self._listened:
                self._became(READY, OFFLINE, STATE_CHANGE, "leaves the databus", self._listened)
                await self._outbox.emptied(LAST_EVENTS)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    @contextmanager
    def asking(self, call: Call, agent_id: str) -> Generator[None]:
        """While this runs, ``call`` asks an agent."""
        self._look()
        began = time.monotonic()
        self._asked(START, call, agent_id, "ok", 0.0)

        def ended(outcome: str) -> None:
            self._asked(COMPLETE, call, agent_id, outcome, time.monotonic() - began)

        with telling(ended):
            yield

    async def _keep_looking(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(LOOK_EVERY)

    def _look(self) -> None:
        """See who listens now, and tell those who are new that this is here."""
        topics = (*_FIRST_ERA, *((EVENT,) if self._second_era else ()))
        listened = frozenset(topic for topic in topics if self._transport.listened(topic))
        new, self._listened = listened - self._listened, listened
        if new & _SEEN:
            self._became(JOINING, JOINING, NODE_DISCOVERY, "joins the databus", new)
            self._became(JOINING, READY, STATE_CHANGE, "is on the databus", new)

    def _became(self, before: str, state: str, category: str, reason: str, topics: frozenset[str]) -> None:
        about = {"name": self._name, "service_name": ""}
        component = Component(self.interface_id, "INTERFACE", self._name, state, about, reason)
        step = Transition(component, before, category, reason, time.time_ns() // 1_000_000)
        last = state == OFFLINE
        if (topic := COMPONENT_LIFECYCLE_EVENT.name) in topics:
            values = lifecycle_values(step, self.interface_id, str)
            self._outbox.put(topic, values, last=last, must=True)
        if EVENT in topics:
            for values in unified_values(step, self.interface_id, str):
                self._outbox.put(EVENT, values, must=True)

    def _asked(self, event: str, call: Call, agent_id: str, outcome: str, seconds: float) -> None:
        status = 0 if outcome == "ok" else ERROR_TABLE.get(outcome, ERROR_TABLE["internal"]).bus
        timestamp = time.time_ns() // 1_000_000
        about: dict[str, Any] = {
            "chain_id": call.chain_id,
            "call_id": call.call_id,
            "interface_id": self.interface_id,
            "primary_agent_id": agent_id,
            "specialized_agent_ids": "",
            "function_id": agent_id,
            "query_id": "",
            "event_type": event,
            "source_id": self.interface_id,
            "target_id": agent_id,
            "status": status,
        }
        if (topic := CHAIN_EVENT.name) in self._listened:
            self._outbox.put(topic, {**about, "timestamp": timestamp}, last=event == COMPLETE, must=True)
        facts = {"kind": str(StepKind.REQUEST), "name": shorten(call.function, NAME_BOUND)}
        if event == COMPLETE:
            facts |= self._details(call, outcome, seconds)
            if MONITORING_EVENT.name in self._listened:
                self._outbox.put(MONITORING_EVENT.name, _whole(about, facts, timestamp), last=True, must=True)
        if EVENT in self._listened:
            severity = "ERROR" if status else "INFO"
            values = unified(
                CHAIN, call.call_id, self.interface_id, timestamp, event, about | facts, severity=severity
            )
            self._outbox.put(EVENT, values, must=True)

    def _details(self, call: Call, outcome: str, seconds: float) -> dict[str, Any]:
        return {
            "parent_id": f"{call.arrived.parent:016x}" if call.arrived.parent else "",
            "duration_ms": round(seconds * 1000, 4),
            "code": outcome,
            "agent": "",
            "host": self.interface_id,
            "incarnation": "",
            "version": "",
            "about": {"interface": self._name},
        }


def _whole(about: Mapping[str, Any], facts: Mapping[str, Any], timestamp: int) -> dict[str, Any]:
    """A question that has ended as ``MONITORING_EVENT``, without what was asked and answered."""
    ids = {"chain_id": about["chain_id"], "call_id": about["call_id"]}
    return {
        "event_id": about["call_id"],
        "timestamp": timestamp,
        "event_type": WORDS_HERE.event_type,
        "entity_type": WORDS_HERE.entity_type,
        "entity_id": about["function_id"],
        "metadata": shorten(encode({**ids, **facts}).decode(), MONITORING_EVENT.bound("metadata")),
        "call_data": "",
        "result_data": "",
        "status_data": encode({"status": about["status"], "code": facts["code"]}).decode(),
    }
