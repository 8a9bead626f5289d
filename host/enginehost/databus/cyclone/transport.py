"""The databus's port on Cyclone DDS."""

from __future__ import annotations

import asyncio
import logging
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
from enginehost.databus.cyclone.outlet import Outlet
from enginehost.databus.cyclone.pump import Pump
from enginehost.databus.cyclone.wire import idl_type, serialized, serialized_key
from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest, RequestHandler
from enginehost.databus.types import (
    FUNCTION_CAPABILITY,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
    Struct,
)
from enginehost.errors import EngineUnavailable

log = logging.getLogger("enginehost.databus")

REPLY_PATIENCE = 12.0
"""Seconds for which a reply waits for readers: a silent peer counts as gone after 10."""

MATCH_PATIENCE = 1.0
"""Seconds for which the first reply to a requester waits until its reply reader is discovered."""
MATCH_POLL = 0.005

CLOSE_PATIENCE = 1.0
"""Seconds that the last samples may take to arrive."""

UNTAKEN_SAMPLES = 8_192
"""Requests that may wait in the reader; then writers are slowed down."""

REQUESTERS_KNOWN = 4_096

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
            self._replies = self._outlet(FUNCTION_EXECUTION_REPLY, REPLY_WRITER)
            self._capabilities = self._outlet(FUNCTION_CAPABILITY, CAPABILITY_WRITER)
        except DDSException as failure:
            leave_domain(config.domain)
            raise EngineUnavailable(
                f"cannot join DDS domain {config.domain} on {config.interface}: "
                f"are there more than {MOST_PARTICIPANTS} participants on this machine?"
            ) from failure
        self._pump: Pump | None = None
        self._requesters: dict[str, asyncio.Task[None]] = {}

    async def serve(self, handler: RequestHandler) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""

        async def receive(batch: Sequence[tuple[Any, Any]]) -> None:
            await handler([_request(sample, info) for sample, info in batch])

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
        await self._matched(source)
        sample = _REPLY(*astuple(reply))
        large = len(reply.result) > LARGE_RESULT
        data = await asyncio.to_thread(serialized, sample) if large else serialized(sample)
        return await self._replies.send(data, REPLY_PATIENCE)

    async def close(self) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        for task in self._requesters.values():
            task.cancel()
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
            "requesters": len(self._requests.get_matched_publications()),
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

    def _outlet(self, struct: Struct, qos: Qos) -> Outlet:
        return Outlet(DataWriter(self._participant, self._topic(struct), qos), f"databus-{struct.name}")

    async def _matched(self, source: str) -> None:
        """Wait until the reply reader of a requester heard of for the first time is discovered.

        Requests and replies are not kept for late joiners, and the requester's two endpoints are
        discovered independently: the answer to its very first request would now and then be lost.
        """
        task = self._requesters.get(source)
        if task is None:
            if len(self._requesters) >= REQUESTERS_KNOWN:
                self._requesters = {s: t for s, t in self._requesters.items() if not t.done()}
            task = asyncio.get_running_loop().create_task(self._match(int(source)))
            self._requesters[source] = task
        if not task.done():
            await asyncio.wait((task,))

    async def _match(self, publication: int) -> None:
        requester = self._requests.get_matched_publication_data(publication)
        if requester is None:
            return
        for _ in range(int(MATCH_PATIENCE / MATCH_POLL)):
            if requester.participant_key in self._reply_readers():
                return
            await asyncio.sleep(MATCH_POLL)

    def _reply_readers(self) -> set[Any]:
        found = [self._replies.reader_data(handle) for handle in self._replies.readers]
        return {reader.participant_key for reader in found if reader is not None}


_TYPES = {
    struct.name: idl_type(struct)
    for struct in (FUNCTION_CAPABILITY, FUNCTION_EXECUTION_REQUEST, FUNCTION_EXECUTION_REPLY)
}
_CAPABILITY: Any = _TYPES[FUNCTION_CAPABILITY.name]
_REPLY: Any = _TYPES[FUNCTION_EXECUTION_REPLY.name]
_NO_CAPABILITY = astuple(Capability("", "", "", "", "", "", "", "", "", 0, ""))[1:]


def _request(sample: Any, info: Any) -> ExecutionRequest:
    return ExecutionRequest(
        request_id=sample.request_id,
        function_id=sample.function_id,
        parameters=sample.parameters,
        timestamp=sample.timestamp,
        metadata=sample.metadata,
        source=str(info.publication_handle),
    )
