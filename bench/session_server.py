"""A scripted provider (Chat Completions) in a process of its own, for ``sessions.py`` and its peers.

What it answers is the first part of the path: ``http://127.0.0.1:PORT/short/v1`` and so on. A request's body
is read as it comes and not kept. ``/took`` tells of the last body of a question: its bytes, and the seconds
from its first byte to its last.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from measuring import SERVER_CORE, pin

SHORT, PACED, FLOOD, SINGLE = 20, 100, 5_000, 1_000
"""Tokens of an answer."""
RATE = 5.0
"""Tokens a second of each paced answer."""
TOGETHER = 20
"""Tokens of a write, in a flood."""
LARGE = 200_000_000
PIECE = 16_384
"""Bytes of a large answer, and of each event of it."""
TICKS = 10
APART = 0.0015
"""Seconds between two tokens of an answer that has each of them in a write of its own."""
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_END_OF_BODY = b"\r\n0\r\n\r\n"
_RESULT = b'"role":"tool"'


def _event(delta: Any, finish: str | None = None, usage: Any = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {
        "id": "chatcmpl-0123456789",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "bench-1",
        "choices": [choice],
        "usage": usage,
    }
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


_USAGE = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}
_TOKEN = _event({"content": " token"})
_LAST = _chunk(_event({}, "stop", _USAGE) + b"data: [DONE]\n\n") + b"0\r\n\r\n"
_CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "much", "arguments": "{}"}}
_CALLED = _chunk(_event({"tool_calls": [_CALL]}) + _event({}, "tool_calls", _USAGE) + b"data: [DONE]\n\n")
_SAID = {"role": "assistant", "content": " token" * SHORT}
_WHOLE = {
    "id": "chatcmpl-0123456789",
    "object": "chat.completion",
    "created": 1790000000,
    "model": "bench-1",
    "choices": [{"index": 0, "message": _SAID, "logprobs": None, "finish_reason": "stop"}],
    "usage": _USAGE,
}


class _Paced:
    """Gives every paced answer its next token; one clock for all of them."""

    def __init__(self) -> None:
        self._slots: list[dict[asyncio.StreamWriter, list[Any]]] = [{} for _ in range(TICKS)]
        self._next = 0

    async def answer(self, writer: asyncio.StreamWriter) -> None:
        done = asyncio.get_running_loop().create_future()
        self._next = (self._next + 1) % TICKS
        self._slots[self._next][writer] = [PACED, done]
        await done

    async def run(self) -> None:
        loop, token, tick = asyncio.get_running_loop(), _chunk(_TOKEN), 0
        begin = loop.time()
        while True:
            tick += 1
            slot = self._slots[tick % TICKS]
            for writer, left in list(slot.items()):
                writer.write(token)
                left[0] -= 1
                if not left[0] or writer.is_closing():
                    del slot[writer]
                    left[1].set_result(None)
            await asyncio.sleep(max(0.0, begin + tick / (RATE * TICKS) - loop.time()))


_took = {"bytes": 0, "seconds": 0.0}


async def _request(reader: asyncio.StreamReader) -> tuple[str, bool, bool]:
    """Read a request: which answer, whether as a stream, and whether a tool has answered."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
    left = int(fields.get("content-length", -1 if "transfer-encoding" in fields else 0))
    tail, begin, answered, size, since = b"\r\n", b"", False, 0, 0.0
    while left and not (left < 0 and tail.endswith(_END_OF_BODY)):
        data = await reader.read(1 << 18)
        if not data:
            raise ConnectionError
        since = since or perf_counter()
        size += len(data)
        left -= len(data) if left > 0 else 0
        begin = begin or data[:2000]
        answered = answered or _RESULT in data or _RESULT in tail + data[:20]
        tail = (tail + data)[-20:] if len(data) < 20 else data[-20:]
    if size:
        _took.update(bytes=size, seconds=perf_counter() - since)
    compact = begin.replace(b'": ', b'":')
    return head.split("/", 2)[1], b'"stream":true' in compact, answered


async def _serve() -> None:
    paced = _Paced()
    flood = _chunk(_TOKEN * TOGETHER)
    large = _chunk(_event({"content": "x" * PIECE}))
    short = _chunk(_TOKEN * SHORT)

    async def events(writer: asyncio.StreamWriter, kind: str, answered: bool) -> None:
        writer.write(_HEAD)
        if kind == "paced":
            await paced.answer(writer)
        elif kind == "tool" and not answered:
            writer.write(_CALLED + b"0\r\n\r\n")
            return
        else:
            piece, count = {
                "flood": (flood, FLOOD // TOGETHER),
                "single": (_chunk(_TOKEN), SINGLE),
                "large": (large, LARGE // PIECE),
            }.get(kind, (short, 1))
            for _ in range(count):
                writer.write(piece)
                await writer.drain()
                if kind == "single":  # so that each token is a read of its own
                    await asyncio.sleep(APART)
        writer.write(_LAST)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                kind, stream, answered = await _request(reader)
                if stream:
                    await events(writer, kind, answered)
                else:
                    body = json.dumps(_took if kind == "took" else _WHOLE).encode()
                    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
                    writer.write(head.encode() + b"\r\n\r\n" + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.gather(server.serve_forever(), paced.run())


@contextmanager
def running() -> Generator[str]:
    """The server: its address, to be followed by what it shall answer and ``/v1``."""
    server = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


if __name__ == "__main__":
    import uvloop

    pin(SERVER_CORE)
    uvloop.run(_serve())
