"""Functions for programs that know Genesis's services only: Connext's Replier on ``<service>Request``.

A request names the function, and its answer carries no id: Connext's Requester tells it by DDS's sample
identity. Both become the host's own requests and replies, under the one call path. Of the second era where
the profile ``genesis2`` is on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rti.connextdds as dds

from enginehost.databus import (
    FUNCTION_REPLY,
    FUNCTION_REQUEST,
    GENESIS_RPC_REPLY,
    GENESIS_RPC_REQUEST,
    TOPICS,
    Capability,
    ExecutionReply,
    ExecutionRequest,
    RequestHandler,
    Struct,
)
from enginehost.values import MalformedJson, decode, encode
from enginehost_connext.entities import Entities
from enginehost_connext.names import function_service
from enginehost_connext.peers import writers_of
from enginehost_connext.pump import Pump
from enginehost_connext.qos import reader_qos, writer_qos
from enginehost_connext.structs import dynamic_type, members_of, sample_of

CALLS = TOPICS["FunctionExecutionRequest"].profile
SOURCE = "service"
"""The ``source`` of requests that came to a service."""

MOST_ASKED = 16_384
"""Requests of one service that wait for their answer; the oldest ones are forgotten."""

ERROR_BYTES = 255
"""The bound of a reply's ``error_message`` in the first era."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as Genesis has it: the function's name, its arguments, and what its reply repeats."""

    function: str
    arguments: bytes
    repeated: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """What requests and replies of an era look like."""

    request: Struct
    reply: Struct
    read: Callable[[dict[str, Any]], Asked]
    written: Callable[[Asked, ExecutionReply], dict[str, Any]]


def read_first(members: dict[str, Any]) -> Asked:
    """A ``FunctionRequest``. Raises :class:`ValueError` where the name is no text."""
    function: dict[str, bytes] = members["function"]
    return Asked(function["name"].decode(), function["arguments"] or b"{}", {})


def write_first(asked: Asked, reply: ExecutionReply) -> dict[str, Any]:
    """A ``FunctionReply``; ``null`` is what Genesis has in place of the result of a call that failed."""
    error = reply.error_message.encode()[:ERROR_BYTES].decode(errors="ignore")
    result = reply.result if reply.status == 0 else b"null"
    return {"result_json": result, "success": reply.status == 0, "error_message": error}


def read_second(members: dict[str, Any]) -> Asked:
    """A ``GenesisRPCRequest``. Raises :class:`ValueError` where its message is not of the agreed form."""
    message = decode(members["message"])
    if not (isinstance(message, dict) and isinstance(message.get("function"), str)):
        raise MalformedJson("the message names no function")
    arguments = encode(message.get("params") or {})
    repeated = {name: members[name] for name in ("request_id", "conversation_id", "service_instance_tag")}
    return Asked(message["function"], arguments, repeated)


def write_second(asked: Asked, reply: ExecutionReply) -> dict[str, Any]:
    """A ``GenesisRPCReply``: the result, or status 1 and the error's text."""
    failed = reply.status != 0
    message = reply.error_message if failed else reply.result
    return {**asked.repeated, "message": message, "status": int(failed)}


FORMS = {
    1: Form(FUNCTION_REQUEST, FUNCTION_REPLY, read_first, write_first),
    2: Form(GENESIS_RPC_REQUEST, GENESIS_RPC_REPLY, read_second, write_second),
}


class Service:
    """One service in one era: a Replier, and the requests that it has not answered yet."""

    def __init__(self, entities: Entities, name: str, era: int, handler: RequestHandler) -> None:
        self.functions: dict[str, str] = {}
        """The ids of its functions by name."""
        self._form = FORMS[era]
        self._handler = handler
        self._asked: dict[str, tuple[Asked, Any]] = {}
        self._replier = entities.library.replier(
            dynamic_type(self._form.request),
            dynamic_type(self._form.reply),
            entities.participant,
            function_service(name, era).base,
            datawriter_qos=writer_qos(CALLS),
            datareader_qos=reader_qos(CALLS),
        )
        reader: Any = self._replier.request_datareader
        self._writers = writers_of(reader)
        self._pump = Pump(
            entities.library, reader, self._request, deliver_and_wait=self._handle, owns_reader=False
        )

    def answers(self, request_id: str) -> bool:
        """Whether that request came here."""
        return request_id in self._asked

    def reply(self, reply: ExecutionReply) -> bool:
        """Answer a request that came here; whether there was room for it."""
        asked, identity = self._asked.pop(reply.request_id)
        try:
            self._replier.send_reply(sample_of(self._form.reply, self._form.written(asked, reply)), identity)
        except (dds.TimeoutError, ValueError):
            return False
        return True

    async def close(self) -> None:
        """Serve no more."""
        await self._pump.close()
        await asyncio.to_thread(self._replier.close)

    def _request(
        self, sample: dds.DynamicData, info: dds.SampleInfo
    ) -> tuple[ExecutionRequest, Asked, Any] | None:
        if not info.valid:
            return None
        asked = self._form.read(members_of(self._form.request, sample))
        identity = info.original_publication_virtual_sample_identity
        request_id = f"{identity.writer_guid}-{identity.sequence_number}"
        request = ExecutionRequest(
            request_id,
            self.functions.get(asked.function, asked.function),
            asked.arguments,
            0,
            b"",
            source=SOURCE,
            participant=self._writers.participant(info.publication_handle),
        )
        return request, asked, identity

    async def _handle(self, arrived: Sequence[tuple[ExecutionRequest, Asked, Any]]) -> None:
        for request, asked, identity in arrived:
            self._asked[request.request_id] = asked, identity
            if len(self._asked) > MOST_ASKED:
                del self._asked[next(iter(self._asked))]
        await self._handler([request for request, _, _ in arrived])


class Services:
    """The services of all functions on offer."""

    def __init__(self, entities: Entities, eras: Sequence[int], handler: RequestHandler) -> None:
        self._entities = entities
        self._eras = eras
        self._handler = handler
        self._services: dict[tuple[str, int], Service] = {}

    def offer(self, capabilities: Sequence[Capability]) -> None:
        """These functions can be called by their names at their services."""
        for one in capabilities:
            for era in self._eras:
                key = one.service_name, era
                if key not in self._services:
                    self._services[key] = Service(self._entities, one.service_name, era, self._handler)
                self._services[key].functions[one.name] = one.function_id

    def withdraw(self, function_ids: Sequence[str]) -> None:
        """These cannot be called any more."""
        gone = frozenset(function_ids)
        for service in self._services.values():
            service.functions = {name: i for name, i in service.functions.items() if i not in gone}

    def reply(self, reply: ExecutionReply) -> bool:
        """Answer a request that came to a service."""
        for service in self._services.values():
            if service.answers(reply.request_id):
                return service.reply(reply)
        return False

    async def close(self) -> None:
        """Serve no more."""
        await asyncio.gather(*(service.close() for service in self._services.values()))
