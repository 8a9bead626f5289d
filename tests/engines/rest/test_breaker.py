"""A service that fails again and again is left alone, everybody can see that, and it comes back by itself."""

import asyncio
import json
from typing import Any

import pytest

from enginehost.breaker import Breaker, Circuit
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, EngineContext, EngineState
from enginehost.errors import CallTimeout, EngineUnavailable, ExecutionFailed


async def _fail(engine: Any, kit: Any, times: int) -> None:
    for _ in range(times):
        with pytest.raises(ExecutionFailed, match="answered 503"):
            await engine.execute({}, kit.call())


def _shown(engine: Any) -> dict[str, Any]:
    return EngineRecord("e", "REST", state=EngineState.READY, engine=engine).to_json()


async def test_it_opens_is_seen_and_closes_again(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"", status=503)
    one, two = make(BREAKER_FAILURES=3), make(BREAKER_FAILURES=3)
    await _fail(one, kit, 2)
    await _fail(two, kit, 1)
    for engine in (one, two):
        with pytest.raises(EngineUnavailable, match=r"failed 3 times in a row.*refused for 1[45]") as refused:
            await engine.execute({}, kit.call())
        assert refused.value.detail["retry_may_help"] is True
        assert 14 < refused.value.detail["retry_after"] <= 15
        assert _shown(engine)["reason"].startswith(
            f"127.0.0.1:{server.port} failed 3 times in a row, the last"
        )
        assert json.dumps(refused.value.to_json()).count("path") == 0
    assert len(server.seen) == 3

    breaker = one._way.breaker
    clock = breaker.clock
    breaker.clock = lambda: clock() + 20
    assert breaker.state is Circuit.HALF_OPEN
    await _fail(one, kit, 1)
    with pytest.raises(EngineUnavailable):
        await two.execute({}, kit.call())
    breaker.clock = lambda: clock() + 40
    server.answer = kit.plain(b"1")
    assert await two.execute({}, kit.call()) == 1
    assert (breaker.state, _shown(one)["reason"]) == (Circuit.CLOSED, "")


async def test_one_alone_tries_and_who_goes_away_makes_room(make: Any, server: Any, kit: Any) -> None:
    engine = make(BREAKER_FAILURES=1)
    server.answer = kit.plain(b"", status=503)
    await _fail(engine, kit, 1)
    breaker = engine._way.breaker
    clock = breaker.clock
    breaker.clock = lambda: clock() + 20
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def silent(seen: Any, writer: Any) -> None:
        loop.call_soon_threadsafe(arrived.set)
        await asyncio.sleep(3600)

    server.answer = silent
    trying = asyncio.create_task(engine.execute({}, kit.call()))
    await arrived.wait()
    with pytest.raises(EngineUnavailable, match="a call tries it now"):
        await engine.execute({}, kit.call())
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    server.answer = kit.plain(b"1")
    assert await engine.execute({}, kit.call()) == 1


async def test_what_says_nothing_of_the_service_does_not_count(make: Any, server: Any, kit: Any) -> None:
    async def silent(seen: Any, writer: Any) -> None:
        await asyncio.sleep(3600)

    engine = make(BREAKER_FAILURES=1)
    for status in (400, 404, 429, 500):
        server.answer = kit.plain(b"", status=status)
        with pytest.raises(ExecutionFailed):
            await engine.execute({}, kit.call())
    server.answer = silent
    with pytest.raises(CallTimeout):  # a caller in a hurry
        await engine.execute({}, kit.call(0.1))
    assert engine._way.breaker.state is Circuit.CLOSED
    patient = make(BREAKER_FAILURES=1, READ_TIMEOUT_SECONDS=0.1)
    with pytest.raises(CallTimeout):
        await patient.execute({}, kit.call())
    assert patient._way.breaker.reason == "it did not answer in time"
    assert patient._way.breaker.state is Circuit.OPEN


async def test_refused_connections_and_broken_ones_count(
    make: Any, server: Any, kit: Any, free_tcp_port: int
) -> None:
    async def close(seen: Any, writer: Any) -> None:
        writer.close()

    server.answer = close
    for url, reason in (
        (f"http://127.0.0.1:{free_tcp_port}/", "connection refused"),
        (f"{server.url}/", "it broke the connection off"),
    ):
        engine = make(URL=url, BREAKER_FAILURES=1)
        with pytest.raises((EngineUnavailable, ExecutionFailed)):
            await engine.execute({}, kit.call())
        with pytest.raises(EngineUnavailable, match=f"because: {reason}"):
            await engine.execute({}, kit.call())


async def test_it_never_opens_where_the_file_says_so(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"", status=503)
    await _fail(make(BREAKER_FAILURES=0), kit, 30)
    assert len(server.seen) == 30


def test_the_states_follow_each_other() -> None:
    now = 0.0
    breaker = Breaker("h", 2, 10.0, clock=lambda: now)
    assert breaker.enter() is False
    breaker.failed("x")
    breaker.failures = 0
    for _ in range(2):
        assert breaker.state is Circuit.CLOSED
        breaker.failed("x")
    assert breaker.state is Circuit.OPEN
    now = 10.0
    assert (breaker.state, breaker.enter()) == (Circuit.HALF_OPEN, True)
    breaker.failed("x")
    breaker.left()
    assert breaker.state is Circuit.OPEN
    now = 20.0
    assert breaker.enter() is True
    breaker.failures = 0
    breaker.left()
    assert (breaker.state, breaker.trouble) == (Circuit.CLOSED, "")


def test_an_engine_that_cannot_say_what_hinders_it_is_shown_all_the_same() -> None:
    class Odd(AbstractFunctionEngine):
        @property
        def trouble(self) -> str:
            raise RuntimeError("hush")

    assert _shown(Odd(EngineContext("e")))["reason"] == ""
