"""A session of a million rows of 2 kB: a turn in it streams all of them to the model in flat memory."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from enginehost.agents.contract import AgentSpec
from enginehost.agents.service import AgentService
from enginehost.caller import LOCAL
from enginehost.llm.message import Message, Role, user
from enginehost.store.port import RunState
from enginehost.store.sql import SqlStore
from enginehost.testing import engine_registry, running_host

ROOT = Path(__file__).parents[2]
ROWS = 1_000_000
SIZE = 2_000
GROUP = 500
"""Rows of one transaction while the session is filled."""
MOST_GROWTH = 20
"""Megabytes."""
MODEL = "ENGINE_CLASS = OpenAI\nMODEL = any\nLIST_MODELS = false\nRETRIES = 0\nBASE_URL = {}/v1\n"
ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    b'data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"any","choices":[{"index":0,'
    b'"delta":{"role":"assistant","content":"So it is."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
_MARK, _END = b'"role":', b"\r\n0\r\n\r\n"
"""Of a message, and of a body; the two are of one length."""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.fixture
def anyio_backend() -> Any:
    """The loop that ``enginehost run`` has."""
    return "asyncio", {"use_uvloop": True}


@dataclass
class Body:
    """What the latest question had."""

    messages: int = 0
    size: int = 0


@asynccontextmanager
async def provider() -> AsyncIterator[tuple[str, Body]]:
    """Reads each question to its end and keeps nothing of it; answers with a few words."""
    body = Body()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body.messages = body.size = 0
        tail = b""
        while not tail.endswith(_END):
            if not (read := await reader.read(1 << 16)):
                raise ConnectionError("the question broke off")
            body.size += len(read)
            body.messages += (tail + read).count(_MARK) - tail.count(_MARK)
            tail = (tail + read)[-len(_END) :]
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", body


def resident() -> float:
    """Megabytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


@contextmanager
def most_memory() -> Iterator[Callable[[], float]]:
    """Megabytes that the process had at most, in samples of a hundredth of a second."""
    most, over = [resident()], threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            most[0] = max(most[0], resident())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: max(most[0], resident())
    finally:
        over.set()
        thread.join()


async def _said(session: Any, text: str) -> None:
    run = await session.wait(await session.write(text))
    assert run.state is RunState.DONE, run.error


async def test_a_million_rows_of_2_kb_are_streamed_to_a_model_in_flat_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "plugins" / "enginehost-openai" / "src"), *sys.path])
    from enginehost_openai.engine import OpenAiEngine

    (tmp_path / "smss").mkdir()
    store = SqlStore(f"sqlite:///{tmp_path / 'sessions.db'}", synchronous="normal")
    try:
        async with provider() as (url, body):
            (tmp_path / "smss" / "any.smss").write_text(MODEL.format(url))
            await store.open()
            registry = engine_registry(OpenAiEngine, MODEL)
            async with running_host(tmp_path / "smss", registry=registry) as host:
                agents = AgentService(host, store, [AgentSpec("reader")])
                await agents.open()
                await _said(await agents.start(agent="reader", owner=LOCAL), "hello")
                session = await agents.start(agent="reader", owner=LOCAL)
                pair = [user("x" * SIZE), Message(Role.ASSISTANT, content="y" * SIZE)]
                begin = perf_counter()
                for _ in range(ROWS // GROUP):
                    await session.append(pair * (GROUP // 2))
                filled = perf_counter() - begin
                with most_memory() as most:
                    before, begin = resident(), perf_counter()
                    await _said(session, "How many were there?")
                    took, grown = perf_counter() - begin, most() - before
                await agents.close(0.0)
    finally:
        await store.close()
        for file in tmp_path.glob("sessions.db*"):  # 2.5 GB, which pytest would keep
            file.unlink()
    assert body.messages == ROWS + 1
    assert body.size > ROWS * SIZE
    rate = f"{took:.1f} s ({ROWS / took:,.0f} rows/s)"
    told = f"{body.size / 1e6:,.0f} MB sent to the model in {rate}, {grown:.1f} MB more memory"
    print(f"\n{ROWS:,} rows of {SIZE} bytes: filled in {filled:.0f} s, {told}")  # noqa: T201 - a soak's figures
    assert grown <= MOST_GROWTH
