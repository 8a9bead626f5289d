"""The narrow port between the databus and a DDS library: our own values in, our own values out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


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
class ExecutionRequest:
    """A call from the bus.

    Bytes that are no UTF-8 stand in ``parameters`` and ``metadata`` as PEP 383 escapes them; ids are text.
    ``source`` names the writer it came from, ``participant`` whose writer that is (a program that makes
    many writers gets no more for it); both for this transport only.
    """

    request_id: str
    function_id: str
    parameters: str
    timestamp: int
    metadata: str
    source: str = ""
    participant: str = ""


@dataclass(frozen=True, slots=True)
class ExecutionReply:
    """The answer to a call, member by member as ``FUNCTION_EXECUTION_REPLY`` in ``types.py``."""

    request_id: str
    function_id: str
    result: str
    status: int
    error_message: str
    timestamp: int
    metadata: str


RequestHandler = Callable[[Sequence[ExecutionRequest]], Awaitable[None]]
"""Takes requests on the event loop. While it waits, the transport takes no further ones."""


class Transport(Protocol):
    """What a DDS library has to do for the databus. All methods run on one event loop."""

    async def serve(self, handler: RequestHandler) -> None:
        """Take requests and give them to ``handler``, until :meth:`close`."""
        ...

    async def publish(self, capabilities: Sequence[Capability]) -> None:
        """Offer these functions, or offer them anew; off the event loop."""
        ...

    async def withdraw(self, function_ids: Sequence[str]) -> None:
        """Dispose these functions' instances; off the event loop."""
        ...

    async def reply(self, reply: ExecutionReply, source: str) -> bool:
        """Answer a request that came from ``source``; ``False`` when no way was found in time."""
        ...

    async def close(self) -> None:
        """Give what was written a moment to arrive, then leave the bus."""
        ...

    def describe(self) -> dict[str, Any]:
        """Facts for an operator, as a JSON object."""
        ...
