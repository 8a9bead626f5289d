import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.engine import RunMode
from enginehost.errors import ExecutionFailed, TooLarge
from enginehost_engines.rest import StreamRestEngine
from enginehost_engines.rest.stream import lines

EVENTS = (
    b': comment\n\ndata: {"n": 1}\n\nevent: tick\r\ndata: one\r\ndata: two\r\nid: 7\r\n\r\n'
    b"data:[DONE]\n\ndata: incomplete"
)


async def everything(engine: Any, kit: Any, **arguments: Any) -> list[Any]:
    return [item async for item in engine.execute(arguments, kit.call())]


async def test_text_streams_line_by_line(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.chunked(b"on", b"e\r\ntw", b"o\n\n", "three\u2028é".encode())
    engine = make(StreamRestEngine, HTTP_METHOD="POST", parameters=["a"])
    assert await everything(engine, kit, a=1) == ["one", "two", "", "three\u2028é"]
    assert server.last.body == b'{"a":1}'


async def test_events_are_parsed(make: Any, server: Any, kit: Any) -> None:
    for size in (1, 7, 1000):
        parts = [EVENTS[i : i + size] for i in range(0, len(EVENTS), size)]
        server.answer = kit.chunked(*parts, content_type="text/event-stream; charset=utf-8")
        assert await everything(make(StreamRestEngine), kit) == [
            {"event": "message", "data": {"n": 1}},
            {"event": "tick", "data": "one\ntwo", "id": "7"},
            {"event": "message", "data": "[DONE]", "id": "7"},
        ]


async def test_response_path_picks_from_each_item_and_leaves_out_the_others(
    make: Any, server: Any, kit: Any
) -> None:
    server.answer = kit.chunked(EVENTS, content_type="text/event-stream")
    assert await everything(make(StreamRestEngine, RESPONSE_PATH="/data/n"), kit) == [1]
    assert await everything(make(StreamRestEngine, RESPONSE_PATH="data.n"), kit) == [1]


async def test_json_lines_are_values(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.chunked(b'{"a":1}\n\n[2', b"]\r\n3", content_type="application/x-ndjson")
    assert await everything(make(StreamRestEngine), kit) == [{"a": 1}, [2], 3]
    server.answer = kit.chunked(b'1\n{"a"\n', content_type="application/jsonl")
    with pytest.raises(ExecutionFailed, match="is no JSON"):
        await everything(make(StreamRestEngine), kit)


@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "iso-8859-1", "utf-16-le", "shift_jis"])
async def test_lines_in_any_charset_are_text(make: Any, server: Any, kit: Any, charset: str) -> None:
    text = "eins\nzwei\r\n" + ("ü" if charset != "shift_jis" else "日本")
    data = text.encode(charset)
    for size in (1, 3, 100):
        parts = [data[i : i + size] for i in range(0, len(data), size)]
        server.answer = kit.chunked(*parts, content_type=f"text/plain; charset={charset}")
        assert await everything(make(StreamRestEngine), kit) == text.splitlines()
    server.answer = kit.chunked(*(data[i : i + 1] for i in range(len(data))), content_type="text/plain")
    assert await everything(make(StreamRestEngine, RESPONSE_CHARSET=charset), kit) == text.splitlines()


async def test_lines_that_their_charset_does_not_fit_end_the_stream(make: Any, server: Any, kit: Any) -> None:
    for charset in ("utf-8", "ascii", "shift_jis"):
        server.answer = kit.chunked(b"ok\n", b"\x81\xff\n", content_type=f"text/plain; charset={charset}")
        stream = make(StreamRestEngine).execute({}, kit.call())
        assert await anext(stream) == "ok"
        with pytest.raises(ExecutionFailed, match=f"is not {charset}"):
            await anext(stream)


async def test_a_byte_order_mark_is_no_part_of_the_first_line(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.chunked(b"\xef", b"\xbb\xbf1\n2", content_type="application/x-ndjson")
    assert await everything(make(StreamRestEngine), kit) == [1, 2]


async def test_bytes_come_as_they_arrive(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.chunked(b"\x00\n", b"\xff", content_type="audio/mpeg")
    assert b"".join(await everything(make(StreamRestEngine), kit)) == b"\x00\n\xff"


async def test_an_item_arrives_before_the_next_is_made(make: Any, server: Any, kit: Any) -> None:
    gate = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    inner = kit.chunked(b"data: 1\n\n", b"data: 2\n\n", content_type="text/event-stream", gate=gate)

    async def remember(seen: Any, writer: Any) -> None:
        loops.append(asyncio.get_running_loop())
        await inner(seen, writer)

    server.answer = remember
    stream = make(StreamRestEngine, RESPONSE_PATH="/data").execute({}, kit.call())
    assert await anext(stream) == 1
    loops[0].call_soon_threadsafe(gate.set)
    assert [item async for item in stream] == [2]


async def test_closing_a_stream_early_closes_its_connection(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.endless(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain", b"line\n" * 1000)
    while server.closed.acquire(blocking=False):
        pass
    stream = make(StreamRestEngine).execute({}, kit.call())
    assert await anext(stream) == "line"
    await stream.aclose()
    assert await asyncio.to_thread(server.closed.acquire, True, 5)


async def test_a_consumer_that_waits_holds_the_service_up(make: Any, server: Any, kit: Any) -> None:
    written = 0

    async def endless(seen: Any, writer: Any) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 65535 + b"\n")
            await writer.drain()
            written += 1

    server.answer = endless
    stream = make(StreamRestEngine).execute({}, kit.call())
    await anext(stream)
    before = -1
    while written != before:  # until the buffers on the way are full
        before = written
        await asyncio.sleep(0.2)
    assert written * 65536 < 32 * 2**20
    for _ in range(written + 1):
        await anext(stream)
    assert written > before
    await stream.aclose()


async def test_a_stream_that_fails_tells_its_status(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"no", "text/plain", status=503)
    with pytest.raises(ExecutionFailed) as failed:
        await everything(make(StreamRestEngine), kit)
    assert failed.value.detail == {"status": 503, "retry_may_help": True}


@pytest.mark.parametrize("content_type", ["text/plain", "text/event-stream", "application/x-ndjson"])
async def test_an_item_over_the_limit_ends_the_stream(
    make: Any, server: Any, kit: Any, content_type: str
) -> None:
    server.answer = kit.chunked(*[b"data: " + b"x" * 1000] * 20, content_type=content_type)
    with pytest.raises(TooLarge):
        await everything(make(StreamRestEngine, MAX_RESPONSE_BYTES=5000), kit)


async def test_a_stream_engine_streams(make: Any) -> None:
    function = next(iter(make(StreamRestEngine).functions()))
    assert function.mode is RunMode.ASYNC_STREAM
    assert function.signature.streaming


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=12), max_size=8), st.integers(1, 5))
def test_lines_do_not_depend_on_how_the_bytes_were_cut(whole: list[bytes], size: int) -> None:
    data = b"\n".join(whole)

    async def cut() -> AsyncIterator[bytes]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    async def collect() -> list[bytes]:
        return [line async for line in lines(cut(), 1000, "host")]

    expected = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    if not data.split(b"\n")[-1]:
        expected.pop()
    assert asyncio.run(collect()) == expected
