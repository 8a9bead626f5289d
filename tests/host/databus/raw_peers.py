"""Raw DDS peers of this process, and what a survey finds of them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

from enginehost.databus.config import DatabusConfig
from enginehost.databus.port import Capability
from enginehost.databus.survey import Survey, survey

pytest.importorskip("cyclonedds")
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from enginehost.databus.cyclone.domain import enter_domain, leave_domain
from enginehost.databus.cyclone.wire import idl_type
from enginehost.databus.types import (
    FUNCTION_CAPABILITY,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
)

from .genesis import OFFERED

GOOD = replace(
    OFFERED,
    function_id="6f1a5f0e-6c1c-5d8c-9a53-0d3a4f1f6e11",
    provider_id="a-host",
    parameter_schema='{"type":"object"}',
    service_name="shop",
)

OFFERS = Qos(
    Policy.Reliability.Reliable(0),
    Policy.Durability.TransientLocal,
    Policy.History.KeepLast(1),
    Policy.Liveliness.Automatic(duration(seconds=2)),
    Policy.DataRepresentation(use_cdrv0_representation=True),
)

CALLS = Qos(
    Policy.Reliability.Reliable(0),
    Policy.History.KeepAll,
    Policy.DataRepresentation(use_cdrv0_representation=True),
)

UNBOUNDED = replace(
    FUNCTION_CAPABILITY,
    members=tuple(one if one.key else replace(one, bound=0) for one in FUNCTION_CAPABILITY.members),
)


class Raw:
    """Raw peers of this process, on the domain of the test."""

    def __init__(self, domain: int) -> None:
        self.config = DatabusConfig(domain=domain)
        enter_domain(self.config)
        self._participants: list[DomainParticipant] = []
        self._kept: list[Any] = []
        self.participant = self.join()

    def join(self) -> DomainParticipant:
        self._participants.append(DomainParticipant(self.config.domain))
        return self._participants[-1]

    def write(self, name: str, kind: Any, qos: Qos, *, partition: str = "", whose: Any = None) -> Any:
        whose = whose or self.participant
        topic = Topic(whose, name, kind)
        publisher = Publisher(whose, qos=Qos(Policy.Partition((partition,)))) if partition else whose
        writer = DataWriter(publisher, topic, qos)
        self._kept += [topic, publisher, writer]
        return writer

    def read(self, name: str, kind: Any, qos: Qos, *, partition: str = "", whose: Any = None) -> Any:
        whose = whose or self.participant
        topic = Topic(whose, name, kind)
        subscriber = Subscriber(whose, qos=Qos(Policy.Partition((partition,)))) if partition else whose
        reader = DataReader(subscriber, topic, qos)
        self._kept += [topic, subscriber, reader]
        return reader

    def offer(
        self, *capabilities: Capability, whose: Any = None, ahead: float = 0.0, kind: Any = UNBOUNDED
    ) -> Any:
        kind = idl_type(kind)
        writer = self.write("FunctionCapability", kind, OFFERS, whose=whose)
        for one in capabilities:
            values = {member.name: getattr(one, member.name) for member in FUNCTION_CAPABILITY.members}
            writer.write(kind(**values), timestamp=int((time.time() + ahead) * 1e9))
        return writer

    def answer(self, whose: Any = None) -> None:
        self.read("FunctionExecutionRequest", idl_type(FUNCTION_EXECUTION_REQUEST), CALLS, whose=whose)
        self.write("FunctionExecutionReply", idl_type(FUNCTION_EXECUTION_REPLY), CALLS, whose=whose)

    def close(self) -> None:
        for one in (*self._kept, *self._participants):
            one.__del__()
        leave_domain(self.config.domain)


async def looked(raw: Raw, seconds: float = 0.05) -> Survey:
    found = await survey(raw.config, seconds)
    json.dumps(found.to_json(), allow_nan=False)
    return found


def findings(found: Survey, code: str) -> list[str]:
    return [one.message for one in found.findings if one.code == code]


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """So that about half of all pairs match."""
    return st.sampled_from([usual] * 3 * len(others) + list(others))
