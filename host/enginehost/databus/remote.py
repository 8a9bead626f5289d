"""A function of other hosts as one of the catalog's: the same for callers, whoever runs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from enginehost.agents.chain import DECISION, QUESTION
from enginehost.databus.agents_turns import Turns, chain_here, conversation_with
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
        self.turns: Turns | None = None
        """Set where it is an agent: one question in a conversation at a time."""
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
        if self.turns is None:
            return await self._called(arguments, call)
        async with self._turn(arguments, call) as said:
            return await self._called(said, call)

    async def _called(self, arguments: dict[str, Any], call: Call) -> Any:
        result = await self._requester.call(await self._ask(arguments, call), self.replicas)
        if call.max_result_bytes is not None and len(result) > call.max_result_bytes:
            raise TooLarge(f"the result of {call.function}", limit=call.max_result_bytes, size=len(result))
        try:
            return decode(result) if len(result) < LARGE else await aside(decode, result)
        except MalformedJson as wrong:
            raise no_json(call.function, wrong) from None

    async def stream(self, arguments: dict[str, Any], call: Call) -> AsyncGenerator[Any, None]:
        """The items as they come."""
        async with self._turn(arguments, call) as said:
            items = self._requester.stream(await self._ask(said, call), self.replicas)
            try:
                async for item in items:
                    yield item
            finally:
                await items.aclose()

    @asynccontextmanager
    async def _turn(self, arguments: dict[str, Any], call: Call) -> AsyncGenerator[dict[str, Any]]:
        """An agent's turn: its conversation is that of the agent that asks, where none is named."""
        name = self.signature.name
        conversation = self._conversation(arguments)
        if self.turns is None or not conversation:
            yield arguments
            return
        async with self.turns.of((name, conversation), call):
            yield arguments | {"conversation_id": conversation}

    def _conversation(self, arguments: Mapping[str, Any]) -> str:
        return str(arguments.get("conversation_id") or conversation_with(self.signature.name))

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
            agents=chain_here(call.function),
            decide=DECISION.get() if self.turns is not None else None,
            question=QUESTION.get() if self.turns is not None else "",
        )
