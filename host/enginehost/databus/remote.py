"""A function of other hosts as one of the catalog's: the same for callers, whoever runs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from enginehost.databus.exchange import Ask
from enginehost.databus.outcome import no_json
from enginehost.databus.replicas import Replica
from enginehost.databus.requester import Requester
from enginehost.engine import Call, Function, RunMode
from enginehost.errors import InvalidArguments, TooLarge
from enginehost.signature import FunctionSignature
from enginehost.trace_context import TraceContext
from enginehost.values import LARGE, MalformedJson, NotJson, aside, decode, encode

_FEW = 64
"""Arguments up to this size, by count of members, are written without a look at how large they are."""


class RemoteFunction:
    """What runs a remote function: ``replicas`` are those that offer it now; the directory keeps them."""

    def __init__(self, requester: Requester, signature: FunctionSignature) -> None:
        self.replicas: list[Replica] = []
        self.signature = signature
        self._requester = requester
        hints = signature.annotations
        self._repeatable = hints.idempotent is True or hints.read_only is True

    @property
    def function(self) -> Function:
        """The function for the catalog."""
        if self.signature.streaming:
            return Function(self.signature, self.stream, RunMode.ASYNC_STREAM)
        return Function(self.signature, self.call, RunMode.ASYNC)

    async def call(self, arguments: dict[str, Any], call: Call) -> Any:
        """One call; its deadline and trace go along."""
        result = await self._requester.call(await self._ask(arguments, call), self.replicas)
        if call.max_result_bytes is not None and len(result) > call.max_result_bytes:
            raise TooLarge(f"the result of {call.function}", limit=call.max_result_bytes, size=len(result))
        try:
            return decode(result) if len(result) < LARGE else await aside(decode, result)
        except MalformedJson as wrong:
            raise no_json(call.function, wrong) from None

    async def stream(self, arguments: dict[str, Any], call: Call) -> AsyncGenerator[Any, None]:
        """The items as they come."""
        items = self._requester.stream(await self._ask(arguments, call), self.replicas)
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()

    async def _ask(self, arguments: dict[str, Any], call: Call) -> Ask:
        large = call.large or len(arguments) > _FEW
        try:
            parameters = await aside(encode, arguments) if large else encode(arguments)
        except NotJson as wrong:
            raise InvalidArguments(f"{call.function}: an argument cannot be sent: {wrong.message}") from None
        caller = call.caller
        return Ask(
            name=call.function,
            parameters=parameters,
            until=call.deadline,
            repeatable=self._repeatable,
            caller=caller.subject if caller.authenticated else "",
            trace=TraceContext(call.trace, call.span, call.arrived.sampled, call.arrived.state),
        )
