"""LocalPython: generators stream."""

from __future__ import annotations

import pytest

from enginehost.engine import RunMode
from enginehost_engines.worker.failures import FunctionRaised
from enginehost_engines.worker.wire import WINDOW

from .conftest import Engines, eventually, function_of

BOTH = pytest.mark.parametrize("name", ["numbers", "numbers_async"])


@BOTH
async def test_items_come_in_order_whatever_their_number(engines: Engines, name: str) -> None:
    engine = engines.make(name)
    assert function_of(engine).signature.streaming
    assert function_of(engine).mode is RunMode.ASYNC_STREAM
    for upto in (0, 1, WINDOW, 500):
        assert [item async for item in engines.stream(engine, upto=upto)] == list(range(upto))


async def test_items_come_before_the_error_that_ends_a_stream(engines: Engines) -> None:
    stream = engines.stream("numbers_then_fail", upto=3)
    assert [await anext(stream) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(FunctionRaised, match="no more"):
        await anext(stream)


@BOTH
async def test_a_slow_reader_holds_the_function_back(engines: Engines, name: str) -> None:
    mark = engines.folder / "mark"
    engine = engines.make(name)
    stream = engines.stream(engine, upto=10_000, mark=str(mark))
    assert await anext(stream) == 0
    # whatever comes is written before it is sent: with the window full, nothing further is made
    await eventually(lambda: mark.exists() and mark.read_text() == str(WINDOW))
    # while another reader takes a thousand, from the same process where it can serve two
    other = engine if name == "numbers_async" else engines.make(name)
    assert [item async for item in engines.stream(other, upto=1_000)] == list(range(1_000))
    assert int(mark.read_text()) == WINDOW
    await stream.aclose()


@BOTH
async def test_leaving_a_stream_early_closes_the_generator_and_frees_the_worker(
    engines: Engines, name: str
) -> None:
    mark = engines.folder / "mark"
    engine = engines.make(name)
    async for item in (stream := engines.stream(engine, upto=10**9, mark=str(mark))):
        if item == 20:
            break
    await stream.aclose()
    await eventually(mark.with_name("mark.closed").exists)
    assert [item async for item in engines.stream(engine, upto=2)] == [0, 1]


async def test_a_generator_that_does_not_listen_is_ended_by_force(engines: Engines) -> None:
    engine = engines.make(
        "deaf",
        script="""
        def deaf(stubborn):
            yield 1
            while stubborn:
                pass
    """,
    )
    stream = engines.stream(engine, stubborn=True)
    assert await anext(stream) == 1
    await stream.aclose()
    assert [item async for item in engines.stream(engine, stubborn=False)] == [1]


async def test_two_streams_of_one_async_function_run_side_by_side(engines: Engines) -> None:
    engine = engines.make("numbers_async")
    first, second = engines.stream(engine, upto=100), engines.stream(engine, upto=100)
    for number in range(100):
        assert (await anext(first), await anext(second)) == (number, number)
    await first.aclose()
    await second.aclose()
