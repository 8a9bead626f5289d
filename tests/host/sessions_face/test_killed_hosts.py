"""``kill -9`` of hosts of one database: who is left goes on with the turn, and tells all of it once."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any

import httpx2
import pytest

WORDS = 40
SCRIPT = f"""
answers:
  - when: {{text: mark}}
    reply:
      - call: {{tool: mark, args: {{n: 7}}}}
  - when: {{result: '*'}}
    tokens_per_second: 20
    say: "{"word " * WORDS}"
"""
FILES = {
    "actor.smss": "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n",
    "actor.yaml": SCRIPT,
    "helper.smss": "ENGINE_CLASS = Agent\nFUNCTION_NAME = helper\nFUNCTION_DESCRIPTION = Helps.\n"
    "MODEL = actor\nTOOLS = mark\n",
    "mark.smss": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = mark.py\nFUNCTION_NAME = mark\n"
    "FUNCTION_DESCRIPTION = Leaves a mark.\n",
    "mark.py": "import time\nfrom pathlib import Path\n\n\ndef mark(n: int) -> str:\n"
    "    with (Path(__file__).parent.parent / 'marks').open('a') as file:\n"
    "        file.write(f'{n}\\n')\n"
    "    time.sleep(600)\n",
}
SPEAKS = f"""
answers:
  - tokens_per_second: 20
    say: "{"word " * WORDS}"
"""
A2A = {"A2A-Version": "1.0"}
SETTINGS = {"ENGINEHOST_STORE__LEASE": "2", "ENGINEHOST_DATABUS": "off"}


class Process:
    """``enginehost run`` as a process of its own."""

    def __init__(self, folder: Path, database: str, stack: ExitStack) -> None:
        run = (sys.executable, "-m", "enginehost", "run", "smss", "--http", "127.0.0.1:0", "--log", "json")
        environ = {**os.environ, **SETTINGS, "ENGINEHOST_STORE__URL": database}
        environ["ENGINEHOST_STATE_DIR"] = str(folder / "state")
        self.process = subprocess.Popen(run, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True)
        stack.callback(self.kill)
        self.url = ""

    def ready(self) -> Process:
        """Wait until it serves."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            event = json.loads(line)
            self.url = event["http"] if event["event"] == "listening" else self.url
            if event["event"] == "ready":
                return self
        raise AssertionError("the host has ended")

    def kill(self) -> None:
        """As ``kill -9`` does."""
        self.process.kill()
        self.process.wait(30)
        if self.process.stderr is not None:
            self.process.stderr.close()


class Subscriber:
    """Follows a session at one host after another, each time from the last event that it has."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.ids: list[str] = []
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def follow(self, url: str, until: Any) -> None:
        """Until ``until(name, data)``, or the host is gone."""
        headers = {"last-event-id": self.ids[-1]} if self.ids else {}
        path = f"{url}/v1/sessions/{self.session}/events"
        async with (
            asyncio.timeout(60),
            httpx2.AsyncClient(timeout=60) as client,
            client.stream("GET", path, headers=headers) as response,
        ):
            lines: dict[str, str] = {}
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if line:
                    lines[name] = value
                elif "data" in lines:
                    self.ids.append(lines["id"])
                    self.events.append((lines["event"], json.loads(lines["data"])))
                    if until(*self.events[-1]):
                        return
                    lines = {}

    def texts(self) -> dict[str, str]:
        """The content of each message."""
        found: dict[str, str] = {}
        for name, data in self.events:
            if name == "message":
                found[data["id"]] = found.get(data["id"], "") + data["content"]
        return found

    def ends(self) -> list[str]:
        """How the turn ended, each time that this was said."""
        states = [data["state"] for name, data in self.events if name == "run"]
        return [state for state in states if state in ("done", "failed", "cancelled")]


def _paused(name: str, data: dict[str, Any]) -> bool:
    return name == "run" and data["state"] == "paused"


def _done(name: str, data: dict[str, Any]) -> bool:
    return name == "run" and data["state"] == "done"


def _speaks(name: str, data: dict[str, Any]) -> bool:
    return name == "message" and data["role"] == "assistant" and "word" in data["content"]


async def _marked(marks: Path) -> None:
    async with asyncio.timeout(30):
        while not (marks.exists() and marks.read_text().endswith("\n")):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
async def test_hosts_are_killed_in_a_call_and_in_an_answer_and_the_next_tells_the_rest(
    tmp_path: Path, database: str
) -> None:
    (tmp_path / "smss").mkdir()
    for name, text in FILES.items():
        (tmp_path / "smss" / name).write_text(text)
    marks = tmp_path / "marks"
    with ExitStack() as stack:
        first, second = (Process(tmp_path, database, stack) for _ in range(2))
        first.ready()
        async with httpx2.AsyncClient(timeout=30) as client:
            made = await client.post(f"{first.url}/v1/sessions", json={"agent": "helper"})
            session = made.json()["id"]
            path = f"/v1/sessions/{session}"
            await client.post(f"{first.url}{path}/messages", json={"message": "mark it"})
            subscriber = Subscriber(session)
            at_first = asyncio.create_task(subscriber.follow(first.url, _done))
            await _marked(marks)
            first.kill()  # while the function runs, after its effect
            with pytest.raises(httpx2.TransportError):
                await at_first
            third = Process(tmp_path, database, stack)

            second.ready()
            await subscriber.follow(second.url, _paused)
            (asked,) = (await client.get(f"{second.url}{path}/approvals")).json()["approvals"]
            assert asked["kind"] == "outcome"
            answer = {"decision": "answer", "text": "the mark is there"}
            await client.post(f"{second.url}{path}/approvals/{asked['call']}", json=answer)
            await subscriber.follow(second.url, _speaks)
            second.kill()  # in the middle of an answer

            third.ready()
            await subscriber.follow(third.url, _done)
            whole = Subscriber(session)
            await whole.follow(third.url, _done)
            rows = (await client.get(f"{third.url}{path}/messages")).json()["messages"]
    assert marks.read_text() == "7\n"
    assert len(set(subscriber.ids)) == len(subscriber.ids)
    assert subscriber.texts() == whole.texts()
    assert (subscriber.ends(), whole.ends()) == (["done"], ["done"])
    kinds = Counter(row["type"] for row in rows)
    assert (kinds["tool_call"], kinds["tool_result"]) == (1, 1)
    assert all(row["status"] != "open" for row in rows)
    assert rows[-1]["content"].count("word") == WORDS
    assert rows[-1]["status"] == "done"


async def _subscribed(
    client: httpx2.AsyncClient, url: str, task: str
) -> AsyncGenerator[dict[str, Any], None]:
    """What an A2A subscriber gets."""
    path = f"{url}/a2a/helper/tasks/{task}:subscribe"
    async with client.stream("GET", path, headers=A2A) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line[6:])


@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
async def test_a_task_of_a_host_that_is_killed_ends_at_another(tmp_path: Path, database: str) -> None:
    (tmp_path / "smss").mkdir()
    for name, text in (FILES | {"actor.yaml": SPEAKS}).items():
        (tmp_path / "smss" / name).write_text(text)
    with ExitStack() as stack:
        first, second = (Process(tmp_path, database, stack) for _ in range(2))
        first.ready()
        second.ready()
        async with asyncio.timeout(90), httpx2.AsyncClient(timeout=60, headers=A2A) as client:
            said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "speak"}]}
            sent = {"message": said, "configuration": {"returnImmediately": True}}
            made = await client.post(f"{first.url}/a2a/helper/message:send", json=sent)
            task = made.json()["task"]["id"]
            async with aclosing(_subscribed(client, second.url, task)) as updates:
                killed = False
                async for update in updates:
                    if "artifactUpdate" in update and not killed:
                        killed = True
                        first.kill()  # in the middle of the answer
                last = update
            ended = (await client.get(f"{second.url}/a2a/helper/tasks/{task}")).json()
    assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert ended["status"]["state"] == "TASK_STATE_COMPLETED"
    (artifact,) = ended["artifacts"]
    assert "".join(part["text"] for part in artifact["parts"]).count("word") == WORDS
