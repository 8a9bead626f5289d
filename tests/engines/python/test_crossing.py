"""What crosses between host and worker: values as they were, nothing too large, nothing harmful."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost import Host, validation
from enginehost.engine import CURRENT, Call
from enginehost.errors import EngineHostError, InvalidArguments, OutcomeUnknown, ResultInvalid, TooLarge
from enginehost.testing.strategies import json_values
from enginehost.values import LARGE, Parted, pack, unpack
from enginehost_engines.local_python import LocalPythonEngine
from enginehost_engines.worker.area import RING_BYTES, Area, MalformedFrame, new_area
from enginehost_engines.worker.wire import FrameBuffer, frame

from .conftest import Engines, alive, eventually, function_of

np = pytest.importorskip("numpy")

VALUES: list[Any] = [
    2**70, 0.1, math.inf, -0.0, Decimal("1.10"), b"", b"x" * (LARGE + 1), bytearray(b"y" * LARGE), "\u2603$",
    None, date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, tzinfo=UTC), timedelta(1, 2, 3), UUID(int=7),
    Path("a/b"), (1, (2,)), {1, 2}, frozenset({3}), {1: "a", (2, 3): b"b"}, {"$bytes": "no"},
    [{"$array": [1, 2, 3]}],
]  # fmt: skip
ARRAYS = ["?", "i1", "<i8", ">i4", "u2", "f2", "f4", ">f8"]


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


@pytest.fixture
def echo(engines: Engines) -> Any:
    """A function that returns what it gets."""
    engine = engines.make("echo")
    return lambda value: engines.call(engine, value=value)


async def test_every_value_crosses_both_ways_and_stays_what_it_is(echo: Any) -> None:
    for value in VALUES:
        assert same(await echo(value), value)
        assert same(await echo({"in": [value]}), {"in": [value]})
    assert math.isnan(await echo(math.nan))


async def test_arrays_cross_both_ways_in_one_piece(echo: Any) -> None:
    for kind in ARRAYS:
        for shape in ((0,), (3,), (2, 0, 3), (4, 5), (40_000,), (300, 301)):
            array = (np.arange(math.prod(shape)) % 2).astype(kind).reshape(shape)
            found = await echo([array, array[::-1].T])
            assert [one.dtype for one in found] == [array.dtype] * 2
            assert np.array_equal(found[0], array)
            assert np.array_equal(found[1], array[::-1].T)
            found[0] += found[0]  # it belongs to whoever got it
    larger_than_the_shared_memory = np.arange(2_000_000)
    assert np.array_equal(await echo(larger_than_the_shared_memory), larger_than_the_shared_memory)


def test_any_json_crosses_both_ways(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:  # one loop, and so one worker, for all examples
        engines = Engines(tmp_path)
        engine = engines.make("echo")

        @settings(max_examples=100, deadline=None)
        @given(json_values())
        def check(value: Any) -> None:
            assert runner.run(engines.call(engine, value=value)) == value

        check()
        runner.run(engines.close())


async def test_what_cannot_cross_is_refused_with_its_place(engines: Engines, echo: Any) -> None:
    with pytest.raises(InvalidArguments, match=r"at /value/a~1b/1: .*object") as refused:
        await echo({"a/b": [1, object()]})
    assert refused.value.detail["errors"][0]["pointer"] == "/value/a~1b/1"
    engine = engines.make("f", script="def f(): return {'x': [0, {'y': object()}]}")
    with pytest.raises(ResultInvalid, match="/x/1/y"):
        await engines.call(engine)
    assert await echo(1) == 1


@pytest.mark.parametrize("name", ["f", "g"])
async def test_a_result_over_the_limit_stays_in_its_worker(engines: Engines, name: str) -> None:
    script = "def f(n): return 'x' * n\nasync def g(n): return b'x' * n\n"
    function = function_of(engines.make(name, script=script))
    call = Call("name", max_result_bytes=1000)
    token = CURRENT.set(call)
    try:
        assert len(await function.run({"n": 100}, call)) == 100
        with pytest.raises(TooLarge, match=r"^the result of name may have 1000 bytes and has \d+ bytes$"):
            await function.run({"n": 10_000_000}, call)
    finally:
        CURRENT.reset(token)


async def test_an_item_over_the_limit_ends_its_stream(engines: Engines) -> None:
    engine = engines.make("f", script="def f():\n    yield 1\n    yield 'x' * 5000\n")
    call = Call("name", max_result_bytes=1000)
    token = CURRENT.set(call)
    try:
        stream = function_of(engine).run({}, call)
        assert await anext(stream) == 1
        with pytest.raises(TooLarge):
            await anext(stream)
    finally:
        CURRENT.reset(token)


HOSTILE = """
import os, stat, struct

def write(data):
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, data)
        except OSError:
            pass

def hostile(data):
    write(data)
    import time
    time.sleep(60)
"""


@pytest.mark.parametrize(
    "data",
    [
        frame(99, 0, b"{") * 3 + b"\xff" * 64,  # a length that nobody would send
        frame(24, 0, b"no JSON"),
        frame(18, 0, b"[1]"),
        frame(19 | 0x80, 1, b"\x01"),  # parts that are not there
        frame(19, 1, b"no JSON"),  # the answer of the call that runs
        frame(19, 1, b'{"$bytes":7}'),
    ],
)
async def test_what_a_script_writes_to_the_socket_ends_its_worker_and_nothing_else(
    engines: Engines, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    engine = engines.make("hostile", script=HOSTILE, init_function_engine="secret = 'hush-hush'")
    pid = await engines.call("process_id")
    with caplog.at_level(logging.DEBUG), pytest.raises(OutcomeUnknown, match=r"^test: "):
        await asyncio.wait_for(engines.call(engine, data=data), 20)
    assert "hush-hush" not in caplog.text
    assert alive(pid)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=5))
def test_whatever_comes_is_frames_or_malformed(pieces: list[bytes]) -> None:
    buffer = FrameBuffer()
    try:
        for piece in pieces:
            buffer.room()[: len(piece)] = piece
            buffer.filled(len(piece))
    except MalformedFrame:
        pass


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(LARGE, 3_000_000), st.booleans()), min_size=1, max_size=12), st.data())
def test_parts_arrive_whatever_is_under_way(parts: list[tuple[int, bool]], data: st.DataObject) -> None:
    fd = new_area()
    if fd < 0:
        pytest.skip("no shared memory here")
    host, worker = Area.of(os.dup(fd), host=True), Area.of(fd, host=False)
    try:
        under_way: list[tuple[bytes, bytes]] = []
        for number, (size, changeable) in enumerate(parts):
            part = bytes([number]) * size
            under_way.append((part, host.joined(Parted(b"text", [(part, changeable)]))))
            while under_way and data.draw(st.booleans()):
                sent, payload = under_way.pop(0)
                got = worker.parted(payload)
                assert bytes(got) == b"text"
                assert got.parts[0][0] == sent
        for sent, payload in under_way:
            assert worker.parted(payload).parts[0][0] == sent
    finally:
        host.close()
        worker.close()


@given(st.binary(max_size=80))
def test_what_claims_to_have_parts_reads_nothing_but_the_ring(payload: bytes) -> None:
    area = Area.of(new_area(), host=True)
    try:
        assert isinstance(area.parted(payload), Parted)
    except MalformedFrame:
        pass
    finally:
        area.close()
    assert RING_BYTES > 0


def test_arrays_become_lists_where_numpy_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [(np.arange(6) % 2).reshape(2, 3).astype(kind) for kind in ARRAYS]
    data = pack(arrays)
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    assert unpack(data) == [[[0, 1, 0], [1, 0, 1]]] * len(ARRAYS)


# calls that wait in a worker


async def warm(engines: Engines, engine: LocalPythonEngine) -> None:
    """Let the host learn that its calls are short."""
    for _ in range(40):
        await engines.call(engine, what="quick")


LINE = """
import os, time

def line(what, mark=""):
    if mark:
        with open(mark, "a") as file:
            file.write(what + "\\n")
    if what == "die":
        os._exit(3)
    if what == "hang":
        time.sleep(60)
    return what
"""


async def test_those_behind_a_call_that_ends_its_worker_run_once_each(engines: Engines) -> None:
    engine, mark = engines.make("line", script=LINE), str(engines.folder / "mark")
    await warm(engines, engine)
    words = ["one", "die", *(str(number) for number in range(20))]
    calls = (engines.call(engine, what=word, mark=mark) for word in words)
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers[1], EngineHostError)
    assert [*answers[:1], *answers[2:]] == [*words[:1], *words[2:]]
    assert Path(mark).read_text().split() == words


async def test_those_behind_a_call_that_is_cancelled_run_and_the_cancelled_ones_do_not(
    engines: Engines,
) -> None:
    engine, mark = engines.make("line", script=LINE), engines.folder / "mark"
    await warm(engines, engine)
    calls = [
        asyncio.ensure_future(engines.call(engine, what=word, mark=str(mark)))
        for word in ("hang", "left", "stays")
    ]
    await eventually(lambda: mark.exists() and "hang" in mark.read_text())
    calls[1].cancel()
    calls[0].cancel()
    assert await calls[2] == "stays"
    assert mark.read_text().split() == ["hang", "stays"]


async def test_a_cancelled_async_call_does_not_hurt_its_neighbours(engines: Engines) -> None:
    script = """
    import asyncio, os
    async def f(seconds):
        await asyncio.sleep(seconds)
        return os.getpid()
    """
    engine = engines.make("f", script=script)
    pid = await engines.call(engine, seconds=0)
    long, short = (asyncio.ensure_future(engines.call(engine, seconds=seconds)) for seconds in (60, 0.3))
    await asyncio.sleep(0)
    long.cancel()
    assert await short == pid
    assert long.cancelled()
    assert await engines.call(engine, seconds=0) == pid


async def test_an_array_that_may_be_anything_is_not_written_as_json_to_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f.py").write_text("def f(value, count):\n    return len(value) * count\n")
    (tmp_path / "f.smss").write_text(
        "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = f.py\nFUNCTION_NAME = f\nFUNCTION_DESCRIPTION = d\n"
        'FUNCTION_PARAMETERS = [{"name": "value"}, {"name": "count", "type": "integer"}]\n'
        'FUNCTION_REQUIRED_PARAMETERS = ["value", "count"]\n'
    )
    async with Host(tmp_path, None, watch=False) as host:
        monkeypatch.setattr(validation, "to_json", lambda value: pytest.fail("written"))
        assert await host.call("f", {"value": np.arange(1000), "count": 2}) == 2000
        assert await host.call("f", {"value": b"x" * 1000, "count": 2}) == 2000
        monkeypatch.undo()
        with pytest.raises(InvalidArguments, match="count"):
            await host.call("f", {"value": np.arange(3), "count": "2"})
