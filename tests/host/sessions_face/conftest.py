"""Real hosts behind real servers on one database, with an agent whose model is scripted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from enginehost.host import Host
from enginehost.serve import HttpServer
from enginehost.settings import HostSettings

SCRIPT = r"""
answers:
  - when: {text: add}
    reply:
      - call: {tool: add, args: {a: 1, b: 2}}
  - when: {text: wipe}
    reply:
      - call: {tool: wipe, args: {what: disk}}
  - when: {result: '*'}
    say: "The result is $result"
  - when: {text: slowly}
    tokens_per_second: 20
    say: "one two three four five six seven eight nine ten one two three four five six seven eight nine ten"
  - when: {text: long}
    tokens_per_second: 2000
    say: "WORDS"
  - say: "You said: $text"
""".replace("WORDS", "word " * 300)
FILES = {
    "actor.smss": "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n",
    "actor.yaml": SCRIPT,
    "helper.smss": "ENGINE_CLASS = Agent\nFUNCTION_NAME = helper\nFUNCTION_DESCRIPTION = Helps.\n"
    "MODEL = actor\nTOOLS = *\nINSTRUCTIONS = Help.\n",
    "tools.py": "def add(a: int, b: int) -> int:\n    return a + b\n\n\ndef wipe(what: str) -> str:\n"
    "    return f'{what} is gone'\n",
    "add.smss": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = add\n"
    'FUNCTION_DESCRIPTION = Adds.\nFUNCTION_ANNOTATIONS = {"readOnly": true}\n',
    "wipe.smss": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = wipe\n"
    "FUNCTION_DESCRIPTION = Wipes.\nAPPROVAL = always\n",
}
TOKENS = {"ann": "a" * 40, "bob": "b" * 40, "eve": "e" * 40}
RULES = {
    "default": "deny",
    "rules": [
        {"subjects": ["ann", "bob"], "allow": "call"},
        {"subjects": ["eve"], "allow": "view"},
    ],
}


@dataclass
class Event:
    id: str
    name: str
    data: dict[str, Any]


@dataclass
class Side:
    """One host, as one of its callers sees it."""

    host: Host
    client: httpx2.AsyncClient

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.client.get(f"/v1/sessions{path}", **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        if body is not None:
            options["json"] = body
        return await self.client.post(f"/v1/sessions{path}", **options)

    async def start(self, **more: Any) -> str:
        response = await self.post("", {"agent": "helper", **more})
        assert response.status_code == 201, response.text
        return response.json()["id"]

    async def say(self, session: str, text: str) -> dict[str, Any]:
        response = await self.post(f"/{session}/messages", {"message": text})
        assert response.status_code == 202, response.text
        return response.json()["run"]

    async def paused(self) -> str:
        """A session whose turn waits for a person: may the agent wipe the disk?"""
        session = await self.start()
        await self.say(session, "wipe it")
        await self.until(session, "paused")
        return session

    async def events(
        self, session: str, after: str = "", *, until: bool = True, header: bool = True
    ) -> AsyncGenerator[Event, None]:
        query = {"until": "run-end"} if until else {}
        headers = {"last-event-id": after} if after and header else {}
        if after and not header:
            query["after"] = after
        request = self.client.build_request(
            "GET", f"/v1/sessions/{session}/events", params=query, headers=headers
        )
        response = await self.client.send(request, stream=True)
        assert response.status_code == 200
        try:
            lines: dict[str, str] = {}
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if line:
                    lines[name] = value
                elif "data" in lines:
                    yield Event(lines.get("id", ""), lines["event"], json.loads(lines["data"]))
                    lines = {}
        finally:
            await response.aclose()

    async def until(self, session: str, state: str, after: str = "") -> list[Event]:
        """The events up to a state of the turn."""
        found: list[Event] = []
        async with asyncio.timeout(30), aclosing(self.events(session, after, until=False)) as events:
            async for event in events:
                found.append(event)
                if event.name == "run" and event.data["state"] == state:
                    break
        return found


class World:
    """As many hosts as a test wants, on one database."""

    def __init__(self, folder: Path, database: str, stack: AsyncExitStack) -> None:
        self.folder, self.database, self._stack = folder, database, stack
        self.sides: dict[Any, Side] = {}

    async def host(self, **settings: Any) -> Host:
        store = {"url": self.database}
        made = HostSettings(state_dir=self.folder / "state", store=store, **settings)  # type: ignore[arg-type]
        host = Host(self.folder / "smss", None, settings=made, watch=False)
        return await self._stack.enter_async_context(host)

    async def side(self, host: Host | None = None, token: str = "", **settings: Any) -> Side:
        host = host or await self.host(**settings)
        server = HttpServer(host, "127.0.0.1:0")
        await server.start()
        self._stack.push_async_callback(server.stop, 0.0)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        client = httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30)
        await self._stack.enter_async_context(client)
        return Side(host, client)

    async def of(self, *names: str) -> list[Side]:
        """One host with tokens; how each of its callers sees it."""
        tokens = [
            {"name": name, "token": token, "tenant": "there" if name == "bob" else "here"}
            for name, token in TOKENS.items()
        ]
        host = await self.host(tokens=tokens, policy=RULES)
        return [await self.side(host, TOKENS[name] if name else "") for name in names]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with ``smss`` in it."""
    (tmp_path / "smss").mkdir()
    for name, text in FILES.items():
        (tmp_path / "smss" / name).write_text(text)
    return tmp_path


@pytest.fixture
async def world(place: Path, database: str) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        yield World(place, database, stack)
