"""What a streamed token costs in ``host.llm(…).send(stream=True)``, over the bytes alone.

Usage::

    python bench/llm_stream.py

A scripted server (Chat Completions, about 20 tokens a write) answers httpx2's ``aiter_raw``, the service, and
the OpenAI SDK's typed stream in turns, over the same traffic. Target: at most 10 µs a token more than the
bytes alone.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins" / "enginehost-openai" / "src"))

from measuring import LOAD_CORE, RUNS, SERVER_CORE, Spread, finish, introduce, pin, table, verdict

TOKENS = 20_000
TOGETHER = 20
TARGET = 10.0
"""Microseconds a token."""


def traffic() -> list[bytes]:
    """The answer as it is written: the chunks of a chunked body."""

    def event(delta: Any, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {
            "id": "chatcmpl-0123456789",
            "object": "chat.completion.chunk",
            "created": 1790000000,
            "model": "bench-1",
            "system_fingerprint": "fp_0123456789",
            "choices": [choice],
        }
        return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"

    token = event({"content": " token"})
    writes = [token * TOGETHER] * (TOKENS // TOGETHER)
    writes.append(event({}, "stop") + b"data: [DONE]\n\n")
    return [f"{len(data):x}\r\n".encode() + data + b"\r\n" for data in writes] + [b"0\r\n\r\n"]


async def serve() -> None:
    """Answer every request with the traffic."""
    writes = traffic()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readuntil(b"0\r\n\r\n")
                writer.write(head)
                for data in writes:
                    writer.write(data)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def running() -> Generator[int]:
    """The server in a process of its own: its port."""
    server = subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield int(server.stdout.readline())
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


async def compare(port: int, folder: Path) -> dict[str, Spread]:
    """Microseconds a token of each way."""
    import httpx2
    from enginehost_openai.engine import OpenAiEngine
    from openai import AsyncOpenAI

    from enginehost.testing import engine_registry, running_host

    url = f"http://127.0.0.1:{port}/v1"
    smss = f"ENGINE_CLASS = OpenAI\nMODEL = bench-1\nLIST_MODELS = false\nBASE_URL = {url}\n"
    (folder / "bench.smss").write_text(smss)
    client = httpx2.AsyncClient()
    sdk = AsyncOpenAI(api_key="x", base_url=url)
    request = {"model": "bench-1", "stream": True, "messages": [{"role": "user", "content": "go"}]}

    async def content() -> Any:
        yield json.dumps(request).encode()

    async def raw() -> int:
        async with client.stream("POST", f"{url}/chat/completions", content=content()) as response:
            count = 0
            async for chunk in response.aiter_raw():
                count += chunk.count(b"\n")
            return count // 2 - 2

    async with running_host(folder, registry=engine_registry(OpenAiEngine, smss)) as host:
        llm = host.llm()

        async def service() -> int:
            count = 0
            async for message in llm.send("go", stream=True):
                count += bool(message.content)
            return count

        async def typed() -> int:
            stream: Any = await sdk.post(
                "/chat/completions",
                cast_to=object,
                content=content(),
                stream=True,
                stream_cls=_typed(),
                options={"headers": {"Content-Type": "application/json"}},
            )
            count = 0
            async for chunk in stream:
                count += bool(chunk.choices[0].delta.content)
            return count

        found: dict[str, list[float]] = {}
        for _ in range(1 + RUNS):  # the first one is to get warm
            for name, way in (("bytes alone", raw), ("llm.send", service), ("typed SDK", typed)):
                begun = time.perf_counter()
                assert await way() == TOKENS
                found.setdefault(name, []).append((time.perf_counter() - begun) / TOKENS * 1e6)
    await client.aclose()
    await sdk.close()
    return {name: Spread(values[1:]) for name, values in found.items()}


def _typed() -> Any:
    from openai import AsyncStream
    from openai.types.chat import ChatCompletionChunk

    class Typed(AsyncStream[ChatCompletionChunk]):
        def __init__(self, *, cast_to: Any, **rest: Any) -> None:
            super().__init__(cast_to=ChatCompletionChunk, **rest)

    return Typed


def main() -> None:
    """Measure and judge."""
    introduce("A streamed token of a model.")
    pin(SERVER_CORE)
    with running() as port, tempfile.TemporaryDirectory() as made:
        pin(LOAD_CORE)
        folder = Path(made, "smss")
        folder.mkdir()
        found = asyncio.run(compare(port, folder))
    table(
        f"A streamed token, µs (about {TOGETHER} tokens a read)",
        ("way", "median", "lowest", "highest"),
        [[name, *spread.cells(1)] for name, spread in found.items()],
    )
    over = found["llm.send"].median - found["bytes alone"].median
    verdict("llm.send over the bytes alone, µs a token", over, most=TARGET)
    finish()


if __name__ == "__main__":
    asyncio.run(serve()) if sys.argv[1:] == ["serve"] else main()
