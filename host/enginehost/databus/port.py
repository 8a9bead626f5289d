"""The narrow port between the databus and a DDS library: our own values in, our own values out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from enginehost.databus.struct import Struct

DEFAULT_PARTITION = ""
"""DDS's default partition, in which every program is that names none."""


@dataclass(frozen=True, slots=True)
class Capability:
    """A function on offer, member by member as ``FUNCTION_CAPABILITY`` in ``types.py``."""

    function_id: str
    name: str
    description: str
    provider_id: str
    parameter_schema: str
    capabilities: str
    performance_metrics: str
    security_requirements: str
    classification: str
    last_seen: int
    service_name: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """What happened to one instance of ``FunctionCapability``: it is there (anew), or it went.

    ``capability`` is ``None`` where it went; ``lost`` then says that nobody took it back: its writer is not
    heard of any more. ``participant`` names the program it comes from, for this transport only.
    """

    function_id: str
    capability: Capability | None
    participant: str
    lost: bool = False


@dataclass(frozen=True, slots=True)
class ExecutionRequest:
    """A call on the bus; ``parameters`` and ``metadata`` are the bytes of their texts, as they came.

    ``source`` names the writer it came from, ``participant`` whose writer that is (a program that makes
    many writers gets no more for it); both for this transport only, and empty in what is sent.
    """

    request_id: str
    function_id: str
    parameters: bytes
    timestamp: int
    metadata: bytes
    source: str = ""
    participant: str = ""


@dataclass(frozen=True, slots=True)
class ExecutionReply:
    """The answer to a call, member by member as ``FUNCTION_EXECUTION_REPLY`` in ``types.py``.

    ``result`` and ``metadata`` are the bytes of their texts. ``participant`` is whose writer it came from.
    """

    request_id: str
    function_id: str
    result: bytes
    status: int
    error_message: str
    timestamp: int
    metadata: bytes
    participant: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """Likewise of any durable keyed topic: ``values`` are its members by name, ``None`` where it went."""

    key: str
    values: Mapping[str, Any] | None
    participant: str
    lost: bool = False


@dataclass(frozen=True, slots=True)
class TopicPair:
    """Requests and replies under names that are made for one service. Members are texts and numbers."""

    request_topic: str
    reply_topic: str
    request: Struct
    reply: Struct


class Sample(NamedTuple):
    """What came on one topic of a pair.

    ``about``: of a request, what its reply is given so that the library can say which one it answers; of a
    reply, what :meth:`PairEnd.send` gave for its request. Empty where the library does not tell.
    """

    values: Mapping[str, Any]
    participant: str
    about: str = ""


SampleHandler = Callable[[Sequence[Sample]], None]
"""Takes samples on the event loop, at once."""

RequestHandler = Callable[[Sequence[ExecutionRequest]], Awaitable[None]]
"""Takes requests on the event loop. While it waits, the transport takes no further ones."""

ReplyHandler = Callable[[Sequence[ExecutionReply]], None]
"""Takes replies on the event loop, at once."""

SightingHandler = Callable[[Sequence[Sighting]], None]
"""Takes sightings on the event loop, at once; the transport gives at most a few dozen in one go."""

Gone = Callable[[str], None]
"""Hears, on the event loop, of a participant whose endpoint is not matched any more."""


class Watcher(Protocol):
    """What hears of capabilities."""

    def seen(self, sightings: Sequence[Sighting]) -> None:
        """Capabilities came, changed or went."""
        ...

    def anew(self) -> None:
        """From here on everything that is there is seen once more (the reader was made anew).

        What is not seen again within some seconds is gone.
        """
        ...


class InstanceWatcher(Protocol):
    """What hears of the instances of a durable topic, as :class:`Watcher` does of capabilities."""

    def seen(self, instances: Sequence[Instance]) -> None:
        """Instances came, changed or went."""
        ...

    def anew(self) -> None:
        """From here on everything that is there is seen once more."""
        ...


class PairEnd(Protocol):
    """One end of a pair of topics: who asks, or who answers."""

    @property
    def peers(self) -> frozenset[str]:
        """The participants at the other end."""
        ...

    async def reach(self, participant: str, patience: float) -> bool:
        """Wait until ``participant`` (any, where it is empty) would take a request and its reply arrive."""
        ...

    async def send(self, values: Mapping[str, Any], about: str = "") -> str | None:
        """Write a request, or the reply to the one that came with ``about``.

        What its reply will be about, which may be empty; ``None`` where its readers do not take it.
        """
        ...

    async def close(self) -> None:
        """Delete the endpoints."""
        ...


class Transport(Protocol):
    """What a DDS library has to do for the databus. All methods run on one event loop."""

    # A provider

    async def serve(self, handler: RequestHandler, partition: str, gone: Gone) -> None:
        """Take requests in the default partition and in ``partition``, until :meth:`close`.

        ``gone`` hears of participants that wrote requests and left.
        """
        ...

    async def publish(self, capabilities: Sequence[Capability]) -> None:
        """Offer these functions, or offer them anew; off the event loop."""
        ...

    async def withdraw(self, function_ids: Sequence[str], *, dispose: bool = True) -> None:
        """Dispose these functions' instances; off the event loop.

        Without ``dispose`` they are only not written by us any more: another host has these ids.
        """
        ...

    async def reply(self, reply: ExecutionReply, source: str, partition: str = DEFAULT_PARTITION) -> bool:
        """Answer a request that came from ``source``, in ``partition``.

        Waits while the requester's reader is behind, which holds up nobody else. ``False`` when no way was
        found in time.
        """
        ...

    # A requester

    async def watch(self, watcher: Watcher) -> None:
        """Tell ``watcher`` of all capabilities, those that are there already too, until :meth:`close`."""
        ...

    async def watch_again(self) -> None:
        """Make the reader of capabilities anew, after a pause of this process: see :meth:`Watcher.anew`."""
        ...

    async def listen(self, handler: ReplyHandler, partition: str, gone: Gone) -> None:
        """Take replies in ``partition``, which requests name as the one to reply in, until :meth:`close`.

        ``gone`` hears of participants that took requests of ours and left.
        """
        ...

    async def reach(self, partition: str, participant: str, patience: float) -> bool:
        """Wait until requests to ``participant`` in ``partition``, and its replies, would arrive.

        ``False`` where it takes no requests there within ``patience`` seconds. For the default partition
        replies are taken there too from now on.
        """
        ...

    async def send(self, request: ExecutionRequest, partition: str) -> bool:
        """Send a request; ``False`` where its readers are behind for too long."""
        ...

    def forget(self, partition: str) -> None:
        """Nothing will be sent to ``partition`` any more: its provider went."""
        ...

    # Other topics (``types.TOPICS``); values are members by name

    async def put(self, topic: str, samples: Sequence[Mapping[str, Any]]) -> None:
        """Write instances of a durable keyed topic; off the event loop."""
        ...

    async def drop(self, topic: str, keys: Sequence[str], *, dispose: bool = True) -> None:
        """Dispose instances of a durable keyed topic; off the event loop.

        Without ``dispose`` they are only not written by us any more.
        """
        ...

    async def follow(self, topic: str, watcher: InstanceWatcher) -> None:
        """Tell ``watcher`` of all instances of a durable topic with its key in front, until :meth:`close`.

        :meth:`watch_again` makes its reader anew too.
        """
        ...

    async def pair(self, pair: TopicPair, handler: SampleHandler, gone: Gone, *, serves: bool) -> PairEnd:
        """Take requests of a pair of topics (``serves``), or replies; in the default partition.

        ``gone`` hears of participants that were there and left. Raises :class:`ValueError` for names that the
        library takes for no topics.
        """
        ...

    def listened(self, topic: str) -> bool:
        """Whether anybody reads a topic of events now. The first question may be answered too early."""
        ...

    def announce(self, topic: str, values: Mapping[str, Any], *, last: bool = False) -> bool:
        """Write an event if anybody reads it and there is room; whether it was written. Never waits.

        ``last``: the last one of its instance, which is then unregistered.
        """
        ...

    # Both

    async def close(self) -> None:
        """Give what was written a moment to arrive, then leave the bus."""
        ...

    def describe(self) -> dict[str, Any]:
        """Facts for an operator, as a JSON object."""
        ...
