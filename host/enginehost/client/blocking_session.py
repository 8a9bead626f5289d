"""A session, as the client that blocks has it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from enginehost.client import session_asks as asks
from enginehost.client.answers import SessionEvent
from enginehost.client.following import WAITS, Following, Said
from enginehost.errors import EngineHostError

if TYPE_CHECKING:
    from enginehost.client.blocking import Client


class Session:
    """A conversation with an agent. The host has it: whoever knows the id, and may, goes on with it."""

    def __init__(self, client: Client, id: str) -> None:
        self._client = client
        self.id = id

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    def about(self) -> dict[str, Any]:
        """It as it stands: ``agent``, ``run``, ``position``, ``approvals``."""
        return self._client.ask(asks.about(self.id))

    def send(self, message: asks.Message, *, agent: str | None = None) -> dict[str, Any]:
        """Say something, and do not wait; gives the turn that it starts, or is taken into."""
        return self._client.ask(asks.send(self.id, message, agent))

    def ask(self, message: asks.Message, *, agent: str | None = None) -> str:
        """Say something; the agent's answer when its turn ends.

        Raises ``WaitsForPerson`` (the questions are in ``detail["questions"]``), and what failed the turn.
        """
        said, state = Said(), ""
        for event in self.stream(message, agent=agent):
            said.take(event)
            state = str(event.data.get("state", "")) if event.kind == "run" else state
        return said.answer(self.id, state, self.approvals() if state == WAITS else [])

    def stream(
        self, message: asks.Message, *, agent: str | None = None
    ) -> Generator[SessionEvent, None, None]:
        """Say something; what comes of it, until the turn has ended or waits for a person."""
        position = str(self.about()["position"])
        run = self.send(message, agent=agent)
        yield from self._follow(Following(self.id, position, run=str(run.get("id", ""))))

    def events(self, after: str = "", *, until_end: bool = False) -> Generator[SessionEvent, None, None]:
        """Its events after a position, for ever; with ``until_end`` until the turn that runs has ended.

        A connection that is cut is opened again where it was, with this host or another at its address.
        """
        return self._follow(Following(self.id, after, until_end=until_end))

    def history(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Its messages after the one with this ``sequence``, oldest first."""
        while True:
            page = self._client.ask(asks.history(self.id, after))
            yield from page["messages"]
            if "next_after" not in page:
                return
            after = page["next_after"]

    def approvals(self) -> list[dict[str, Any]]:
        """The questions that wait for a person."""
        return self._client.ask(asks.approvals(self.id))

    def approve(self, question: str) -> dict[str, Any] | None:
        """Let a call run, as it is; gives the turn."""
        return self._client.ask(asks.decide(self.id, question, decision="approve"))

    def reject(self, question: str, reason: str = "") -> dict[str, Any] | None:
        """Do not let it run; the agent is told why."""
        return self._client.ask(asks.decide(self.id, question, decision="reject", reason=reason))

    def edit(self, question: str, args: Mapping[str, Any]) -> dict[str, Any] | None:
        """Let it run with these arguments."""
        return self._client.ask(asks.decide(self.id, question, decision="edit", args=dict(args)))

    def answer(self, question: str, text: str) -> dict[str, Any] | None:
        """Answer what the agent wants to know."""
        return self._client.ask(asks.decide(self.id, question, decision="answer", text=text))

    def cancel(self) -> dict[str, Any] | None:
        """End the turn that runs or waits; ``None``: there is none."""
        return self._client.ask(asks.cancel(self.id))

    def fork(self, at: int | None = None) -> Session:
        """A session that goes on from a message (its ``sequence``) of this one; without, from the last."""
        return Session(self._client, str(self._client.ask(asks.fork(self.id, at))["id"]))

    def export(self) -> Generator[bytes, None, None]:
        """It as JSON lines, in pieces as they come."""
        with self._client.read(asks.export(self.id)) as chunks:
            yield from chunks

    def delete(self) -> None:
        """End what runs in it, and delete it."""
        self._client.ask(asks.delete(self.id))

    def _follow(self, following: Following) -> Generator[SessionEvent, None, None]:
        while not following.done:
            broken: EngineHostError | None = None
            try:
                with closing(self._connection(following)) as seen:
                    yield from seen
            except EngineHostError as error:
                broken = error
            if not following.done:
                time.sleep(following.ended(broken))

    def _connection(self, following: Following) -> Generator[SessionEvent, None, None]:
        with self._client.opened(following.ask()) as events:
            for event in events:
                if (seen := following.take(event)) is not None:
                    yield seen
                if following.done:
                    return
