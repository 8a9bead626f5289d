"""What a chat asks of the place where its session is: a folder's host in this process, or one over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Protocol
from urllib.parse import quote

from enginehost.caller import LOCAL
from enginehost.cli.local import FolderSource
from enginehost.cli.remote import RemoteSource
from enginehost.cli.source import Source
from enginehost.errors import EngineUnavailable, error_from_json
from enginehost.values import read

Heard = tuple[str, str, dict[str, Any]]
"""An event: its id, ``message`` or ``run``, and its data."""
_LAST = 1 << 62
_PAGE = 20
_MOST_FAILURES = 12
"""Tries in a row to find a host again that went away: about a minute."""


class Link(Protocol):
    """Sessions as ``/v1/sessions`` has them, and their JSON."""

    async def start(self, agent: str, session: str) -> dict[str, Any]:
        """A new session, or the one with this id."""
        ...

    async def about(self, session: str) -> dict[str, Any]:
        """A session as it stands."""
        ...

    async def write(self, session: str, text: str) -> dict[str, Any]:
        """Say something; the turn."""
        ...

    async def cancel(self, session: str) -> dict[str, Any] | None:
        """End the turn that runs; ``None``: there is none."""
        ...

    async def fork(self, session: str, at: int) -> dict[str, Any]:
        """A session that goes on from a message; 0 is the last."""
        ...

    async def decide(self, session: str, call: str, body: Mapping[str, Any]) -> None:
        """Decide a question."""
        ...

    async def history(self, session: str) -> list[dict[str, Any]]:
        """The last messages."""
        ...

    def events(self, session: str, after: str) -> AsyncGenerator[Heard, None]:
        """What comes after a position, until closed."""
        ...


def link_to(source: Source) -> Link:
    """The link to a source."""
    if isinstance(source, RemoteSource):
        return _Remote(source)
    if isinstance(source, FolderSource):
        return _Local(source)
    raise TypeError(f"no sessions at {type(source).__name__}")


class _Local:
    def __init__(self, source: FolderSource) -> None:
        self._host = source.host

    async def start(self, agent: str, session: str) -> dict[str, Any]:
        from enginehost.serve.sessions.access import agent_named, session_of

        agents = await self._host.agents()
        name = agent_named(self._host, agents, agent, LOCAL)
        if session:
            await session_of(self._host, agents, session, LOCAL, agent=name)
            return await self.about(session)
        return await self.about((await agents.start(agent=name, owner=LOCAL)).id)

    async def about(self, session: str) -> dict[str, Any]:
        from enginehost.serve.sessions.deciding import standing

        return await standing(await self._session(session))

    async def write(self, session: str, text: str) -> dict[str, Any]:
        from enginehost.serve.sessions.shapes import run_json

        run = await (await self._session(session)).write(text)
        return run_json(run) if run is not None else {}

    async def cancel(self, session: str) -> dict[str, Any] | None:
        from enginehost.serve.sessions.shapes import run_json

        run = await (await self._session(session)).cancel()
        return run_json(run) if run is not None else None

    async def fork(self, session: str, at: int) -> dict[str, Any]:
        rows = await self._rows(session) if not at else []
        forked = await (await self._session(session)).fork(at or (rows[-1].sequence if rows else 0))
        return await self.about(forked.id)

    async def decide(self, session: str, call: str, body: Mapping[str, Any]) -> None:
        from enginehost.serve.sessions.bodies import Body
        from enginehost.serve.sessions.deciding import decide

        await decide(await self._session(session), call, Body(body, tuple(body)))

    async def history(self, session: str) -> list[dict[str, Any]]:
        from enginehost.serve.sessions.shapes import message_json

        return [message_json(row) for row in await self._rows(session)]

    async def events(self, session: str, after: str) -> AsyncGenerator[Heard, None]:
        from enginehost.serve.sessions.shapes import event_json

        async with aclosing((await self._session(session)).events(after)) as events:
            async for event in events:
                yield (str(event.at), *event_json(event))

    async def _session(self, session: str) -> Any:
        from enginehost.serve.sessions.access import session_of

        return await session_of(self._host, await self._host.agents(), session, LOCAL)

    async def _rows(self, session: str) -> list[Any]:
        return await (await self._session(session)).history(before=_LAST, limit=_PAGE)


class _Remote:
    def __init__(self, source: RemoteSource) -> None:
        self._source = source

    async def start(self, agent: str, session: str) -> dict[str, Any]:
        if session:
            await self.about(session)  # one that is not there is not to be made by a slip
        return await self._source.ask(
            "POST", "/v1/sessions", {"agent": agent} | ({"id": session} if session else {})
        )

    async def about(self, session: str) -> dict[str, Any]:
        return await self._source.ask("GET", _path(session))

    async def write(self, session: str, text: str) -> dict[str, Any]:
        answer = await self._source.ask("POST", _path(session, "messages"), {"message": text})
        return answer["run"]

    async def cancel(self, session: str) -> dict[str, Any] | None:
        answer = await self._source.ask("POST", _path(session, "cancel"), {})
        return answer["run"]

    async def fork(self, session: str, at: int) -> dict[str, Any]:
        return await self._source.ask("POST", _path(session, "fork"), {"at": at} if at else {})

    async def decide(self, session: str, call: str, body: Mapping[str, Any]) -> None:
        await self._source.ask("POST", _path(session, "approvals", call), body)

    async def history(self, session: str) -> list[dict[str, Any]]:
        query = {"before": _LAST >> 4, "limit": _PAGE}
        return (await self._source.ask("GET", _path(session, "messages"), query=query))["messages"]

    async def events(self, session: str, after: str) -> AsyncGenerator[Heard, None]:
        """Goes on by itself after a lost connection, from the last event that has come."""
        failures = 0
        while True:
            try:
                async for place, name, data in self._source.follow(_path(session, "events"), after):
                    failures = 0
                    found = read(data)
                    if name == "error":
                        raise error_from_json(found.get("error", found))
                    after = place or after
                    yield place, name, found
            except EngineUnavailable:
                if failures >= _MOST_FAILURES:
                    raise
            failures += 1
            await asyncio.sleep(min(8.0, 0.1 * 2**failures))


def _path(*parts: str) -> str:
    return "/".join(["/v1/sessions", *(quote(part, safe="") for part in parts)])
