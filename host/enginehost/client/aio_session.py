"""A session, as the client that is awaited has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from enginehost.client import session_asks as asks
from enginehost.client.answers import SessionEvent
from enginehost.client.following import WAITS, Following, Said
from enginehost.errors import EngineHostError

if TYPE_CHECKING:
    from enginehost.client.aio import AsyncClient


class AsyncSession:
    """A conversation with an agent. The host has it: whoever knows the id, and may, goes on with it."""

    def __init__(self, client: AsyncClient, id: str) -> None:
        self._client = client
        self.id = id

    def __repr__(self) -> str:
        return f"AsyncSession({self.id!r})"

    async def about(self) -> dict[str, Any]:
        """It as it stands: ``agent``, ``run``, ``position``, ``approvals``."""
        return await self._client.ask(asks.about(self.id))

    async def send(self, message: asks.Message, *, agent: str | None = None) -> dict[str, Any]:
        """Say something, and do not wait; gives the turn that it starts, or is taken into."""
        return await self._client.ask(asks.send(self.id, message, agent))

    async def ask(self, message: asks.Message, *, agent: str | None = None) -> str:
        """Say something; the agent's answer when its turn ends.

        Raises ``WaitsForPerson`` (the questions are in ``detail["questions"]``), and what failed the turn.
        """
        said, state = Said(), ""
        async for event in self.stream(message, agent=agent):
            said.take(event)
            state = str(event.data.get("state", "")) if event.kind == "run" else state
        return said.answer(self.id, state, await self.approvals() if state == WAITS else [])

    async def stream(
        self, message: asks.Message, *, agent: str | None = None
    ) -> AsyncGenerator[SessionEvent, None]:
        """Say something; what comes of it, until the turn has ended or waits for a person."""
        position = str((await self.about())["position"])
        run = await self.send(message, agent=agent)
        async with aclosing(self._follow(Following(self.id, position, run=str(run.get("id", ""))))) as seen:
            async for event in seen:
                yield event

    def events(self, after: str = "", *, until_end: bool = False) -> AsyncGenerator[SessionEvent, None]:
        """Its events after a position, for ever; with ``until_end`` until the turn that runs has ended.

        A connection that is cut is opened again where it was, with this host or another at its address.
        """
        return self._follow(Following(self.id, after, until_end=until_end))

    async def history(self, after: int = 0) -> AsyncIterator[dict[str, Any]]:
        """Its messages after the one with this ``sequence``, oldest first."""
        while True:
            page = await self._client.ask(asks.history(self.id, after))
            for message in page["messages"]:
                yield message
            if "next_after" not in page:
                return
            after = page["next_after"]

    async def approvals(self) -> list[dict[str, Any]]:
        """The questions that wait for a person."""
        return await self._client.ask(asks.approvals(self.id))

    async def approve(self, question: str) -> dict[str, Any] | None:
        """Let a call run, as it is; gives the turn."""
        return await self._client.ask(asks.decide(self.id, question, decision="approve"))

    async def reject(self, question: str, reason: str = "") -> dict[str, Any] | None:
        """Do not let it run; the agent is told why."""
        return await self._client.ask(asks.decide(self.id, question, decision="reject", reason=reason))

    async def edit(self, question: str, args: Mapping[str, Any]) -> dict[str, Any] | None:
        """Let it run with these arguments."""
        return await self._client.ask(asks.decide(self.id, question, decision="edit", args=dict(args)))

    async def answer(self, question: str, text: str) -> dict[str, Any] | None:
        """Answer what the agent wants to know."""
        return await self._client.ask(asks.decide(self.id, question, decision="answer", text=text))

    async def cancel(self) -> dict[str, Any] | None:
        """End the turn that runs or waits; ``None``: there is none."""
        return await self._client.ask(asks.cancel(self.id))

    async def fork(self, at: int | None = None) -> AsyncSession:
        """A session that goes on from a message (its ``sequence``) of this one; without, from the last."""
        return AsyncSession(self._client, str((await self._client.ask(asks.fork(self.id, at)))["id"]))

    async def export(self) -> AsyncGenerator[bytes, None]:
        """It as JSON lines, in pieces as they come."""
        async with self._client.read(asks.export(self.id)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def delete(self) -> None:
        """End what runs in it, and delete it."""
        await self._client.ask(asks.delete(self.id))

    async def _follow(self, following: Following) -> AsyncGenerator[SessionEvent, None]:
        while not following.done:
            broken: EngineHostError | None = None
            try:
                async with aclosing(self._connection(following)) as seen:
                    async for event in seen:
                        yield event
            except EngineHostError as error:
                broken = error
            if not following.done:
                await asyncio.sleep(following.ended(broken))

    async def _connection(self, following: Following) -> AsyncGenerator[SessionEvent, None]:
        async with self._client.opened(following.ask()) as events:
            async for event in events:
                if (seen := following.take(event)) is not None:
                    yield seen
                if following.done:
                    return
