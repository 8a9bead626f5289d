"""The databus's port on Cyclone DDS."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from importlib.metadata import version
from typing import Any

from cyclonedds.core import DDSException
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from enginehost.databus.config import DatabusConfig
from enginehost.databus.cyclone.domain import MOST_PARTICIPANTS, enter_domain, leave_domain
from enginehost.databus.cyclone.outlet import Outlet, matched
from enginehost.databus.cyclone.pump import Pump
from enginehost.databus.cyclone.replies import RESERVE_DEPTH, ReplyOutlet
from enginehost.databus.cyclone.requesters import Requesters
from enginehost.databus.cyclone.wire import idl_type, serialized, serialized_key
from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest, RequestHandler
from enginehost.databus.types import (
    FUNCTION_CAPABILITY,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
    Struct,
)
from enginehost.errors import EngineUnavailable

CLOSE_PATIENCE = 1.0
"""Seconds that the last samples may take to arrive."""

UNTAKEN_SAMPLES = 8_192
"""Requests that may wait in the reader; then writers are slowed down."""

LARGE_RESULT = 256 * 1024
"""Characters above which a reply is serialised off the event loop."""

WRITE_XCDR1 = Policy.DataRepresentation(use_cdrv0_representation=True)
"""Plain CDR only: other stacks' default readers take nothing else."""
READ_BOTH = Policy.DataRepresentation(use_cdrv0_representation=True, use_xcdrv2_representation=True)

RELIABLE = Policy.Reliability.Reliable(0)
"""A write never waits inside the library (see ``outlet.py``)."""

CAPABILITY_WRITER = Qos(
    RELIABLE,
    Policy.Durability.TransientLocal,
    Policy.History.KeepLast(1),
    Policy.Liveliness.Automatic(duration(seconds=2)),  # a longer lease does not match Genesis's readers
    WRITE_XCDR1,
)
REPLY_WRITER = Qos(RELIABLE, Policy.Durability.Volatile, Policy.History.KeepAll, WRITE_XCDR1)
RESERVE_WRITER = Qos(
    RELIABLE, Policy.Durability.Volatile, Policy.History.KeepLast(RESERVE_DEPTH), WRITE_XCDR1
)
REQUEST_READER = Qos(
    RELIABLE,
    Policy.Durability.Volatile,
    Policy.History.KeepAll,
    Policy.ResourceLimits(max_samples=UNTAKEN_SAMPLES),
    READ_BOTH,
)


class CycloneTransport:
    """One participant with the provider's endpoints.

    The constructor joins the bus; it takes some milliseconds, so it belongs on a thread. It raises
    :class:`EngineUnavailable` with a reason where that is impossible.
    """

    def __init__(self, config: DatabusConfig) -> None:
        enter_domain(config)
        self._domain = config.domain
        self._topics: list[Topic[Any]] = []
        try:
            self._participant = DomainParticipant(config.domain)
            self._requests = DataReader(
                self._participant, self._topic(FUNCTION_EXECUTION_REQUEST), REQUEST_READER
            )
            replies = self._topic(FUNCTION_EXECUTION_REPLY)
            self._replies = ReplyOutlet(
                DataWriter(self._participant, replies, REPLY_WRITER),
                DataWriter(self._participant, replies, RESERVE_WRITER),
                "databus-replies",
            )
            capabilities = self._topic(FUNCTION_CAPABILITY)
            self._capabilities = Outlet(
                DataWriter(self._participant, capabilities, CAPABILITY_WRITER), "databus-capabilities"
            )
        except DDSException as failure:
            leave_domain(config.domain)
            raise EngineUnavailable(
                f"cannot join DDS domain {config.domain} on {config.interface}: "
                f"are there more than {MOST_PARTICIPANTS} participants on this machine?"
            ) from failure
        self._pump: Pump | None = None
        self._requesters = Requesters(self._requests, self._replies)

    async def serve(self, handler: RequestHandler) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""

        async def receive(batch: Sequence[tuple[Any, Any]]) -> None:
            await handler([self._request(sample, info) for sample, info in batch])

        self._pump = Pump(self._participant, self._requests, receive)

    async def publish(self, capabilities: Sequence[Capability]) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""

        def samples() -> Iterator[bytes]:
            for capability in capabilities:
                yield serialized(_CAPABILITY(*astuple(capability)))

        await self._capabilities.write_all(samples)

    async def withdraw(self, function_ids: Sequence[str]) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""

        def keys() -> Iterator[bytes]:
            for function_id in function_ids:
                yield serialized_key(_CAPABILITY(function_id, *_NO_CAPABILITY))

        await self._capabilities.dispose_all(keys)

    async def reply(self, reply: ExecutionReply, source: str) -> bool:
        """See :class:`~enginehost.databus.port.Transport`."""
        await self._requesters.matched(self._requesters.participant(int(source)))
        sample = _REPLY(*astuple(reply))
        large = len(reply.result) > LARGE_RESULT
        data = await asyncio.to_thread(serialized, sample) if large else serialized(sample)
        return await self._replies.send(data)

    async def close(self) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        self._requesters.close()
        if self._pump is not None:
            await self._pump.close()
        await asyncio.gather(self._replies.close(CLOSE_PATIENCE), self._capabilities.close(CLOSE_PATIENCE))
        await asyncio.to_thread(self._leave)

    def describe(self) -> dict[str, Any]:
        """See :class:`~enginehost.databus.port.Transport`."""
        return {
            "transport": "cyclone",
            "version": version("cyclonedds"),
            "capability_readers": len(self._capabilities.readers),
            "requesters": len(matched(self._requests.get_matched_publications)),
            "reader_behind": self._replies.lagging,
            "malformed": self._pump.malformed if self._pump else 0,
        }

    def _leave(self) -> None:
        for entity in (*self._topics, self._participant):
            entity.__del__()
        leave_domain(self._domain)

    def _topic(self, struct: Struct) -> Topic[Any]:
        topic = Topic(self._participant, struct.name, _TYPES[struct.name])
        self._topics.append(topic)
        return topic

    def _request(self, sample: Any, info: Any) -> ExecutionRequest:
        return ExecutionRequest(
            request_id=sample.request_id,
            function_id=sample.function_id,
            parameters=sample.parameters,
            timestamp=sample.timestamp,
            metadata=sample.metadata,
            source=str(info.publication_handle),
            participant=self._requesters.participant(info.publication_handle),
        )


_TYPES = {
    struct.name: idl_type(struct)
    for struct in (FUNCTION_CAPABILITY, FUNCTION_EXECUTION_REQUEST, FUNCTION_EXECUTION_REPLY)
}
_CAPABILITY: Any = _TYPES[FUNCTION_CAPABILITY.name]
_REPLY: Any = _TYPES[FUNCTION_EXECUTION_REPLY.name]
_NO_CAPABILITY = astuple(Capability("", "", "", "", "", "", "", "", "", 0, ""))[1:]
