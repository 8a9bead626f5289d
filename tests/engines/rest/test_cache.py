import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import CallTimeout, EngineHostError, ExecutionFailed
from enginehost_engines.rest import StreamRestEngine
from enginehost_engines.rest.cache import MOST_OF_ONE, Cache, lifetime
from enginehost_engines.rest.request import Message
from enginehost_engines.rest.response import Answer
from enginehost_engines.rest.url import Origin


def counting(kit: Any, **headers: str) -> Any:
    """Answers that count; 304 for the ETag that it gave."""
    count = 0

    async def answer(seen: Any, writer: Any) -> None:
        nonlocal count
        if headers.get("ETag") and seen.header("if-none-match") == headers["ETag"].encode():
            await kit.plain(b"", "", 304, **headers)(seen, writer)
            return
        count += 1
        await kit.plain(json.dumps({"n": count}).encode(), **headers)(seen, writer)

    return answer


async def test_an_answer_is_used_again_for_equal_calls(make: Any, server: Any, kit: Any) -> None:
    server.answer = counting(kit)
    engine = make(CACHE_SECONDS=60, parameters=["q"])
    first = await engine.execute({"q": "a"}, kit.call())
    first["n"] = "changed by a caller"
    assert await engine.execute({"q": "a"}, kit.call()) == {"n": 1}
    assert await engine.execute({"q": "b"}, kit.call()) == {"n": 2}
    assert await engine.execute({"q": "a"}, kit.call()) == {"n": 1}
    assert len(server.seen) == 2


async def test_nothing_is_kept_unless_the_file_says_so_nor_for_other_methods(
    make: Any, server: Any, kit: Any
) -> None:
    server.answer = counting(kit)
    for keys in ({}, {"CACHE_SECONDS": 0}, {"CACHE_SECONDS": 60, "HTTP_METHOD": "POST"}):
        engine = make(**keys)
        assert await engine.execute({}, kit.call()) != await engine.execute({}, kit.call())


async def test_head_is_kept_apart_from_get(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"12345", "text/plain", X_Count="7")
    get, head = make(CACHE_SECONDS=60), make(CACHE_SECONDS=60, HTTP_METHOD="HEAD")
    for _ in range(2):
        assert await get.execute({}, kit.call()) == "12345"
        assert (await head.execute({}, kit.call()))["x-count"] == "7"
    assert [seen.method for seen in server.seen] == ["GET", "HEAD"]


async def test_engines_and_headers_do_not_share_answers(make: Any, server: Any, kit: Any) -> None:
    server.answer = counting(kit)
    place = {"who": "header:X-Who"}
    engine = make(CACHE_SECONDS=60, parameters=["who"], PARAMETER_PLACEMENT=place)
    other = make(CACHE_SECONDS=60, parameters=["who"], PARAMETER_PLACEMENT=place, AUTH_TOKEN="other-token")
    found = [await one.execute({"who": who}, kit.call()) for one in (engine, other) for who in ("a", "b")]
    assert [one["n"] for one in found] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "headers",
    [
        {"Cache_Control": "no-store"},
        {"Cache_Control": "private, NO-STORE"},
        {"Cache_Control": "max-age=0"},
        {"Cache_Control": "no-cache"},
        {"Cache_Control": "max-age=10", "Age": "10"},
        {"Expires": "0"},
        {"Expires": "Thu, 01 Jan 2015 00:00:00 GMT"},
        {"Vary": "*"},
    ],
)
async def test_what_the_service_forbids_is_not_kept(make: Any, server: Any, kit: Any, headers: Any) -> None:
    server.answer = counting(kit, **headers)
    engine = make(CACHE_SECONDS=60)
    assert [(await engine.execute({}, kit.call()))["n"] for _ in range(2)] == [1, 2]


async def test_a_failure_is_not_kept(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"no", "text/plain", 503)
    engine = make(CACHE_SECONDS=60)
    with pytest.raises(ExecutionFailed):
        await engine.execute({}, kit.call())
    server.answer = kit.plain(b'"yes"')
    assert await engine.execute({}, kit.call()) == "yes"


async def test_an_answer_that_did_not_change_is_not_sent_again(make: Any, server: Any, kit: Any) -> None:
    mark = {"ETag": '"v1"', "Cache_Control": "no-cache"}
    server.answer = counting(kit, **mark)
    engine = make(CACHE_SECONDS=60)
    assert [(await engine.execute({}, kit.call()))["n"] for _ in range(3)] == [1, 1, 1]
    assert [seen.header("if-none-match") for seen in server.seen] == [None, b'"v1"', b'"v1"']
    server.answer = counting(kit, ETag='"v2"')
    assert (await engine.execute({}, kit.call()))["n"] == 1
    assert (await engine.execute({}, kit.call()))["n"] == 1
    assert len(server.seen) == 4


async def test_last_modified_marks_an_answer_too(make: Any, server: Any, kit: Any) -> None:
    when = "Wed, 21 Oct 2015 07:28:00 GMT"

    async def answer(seen: Any, writer: Any) -> None:
        status = 304 if seen.header("if-modified-since") == when.encode() else 200
        body = b"" if status == 304 else b'"whole"'
        headers = {"Last_Modified": when, "Cache_Control": "max-age=0"}
        await kit.plain(body, "application/json", status, **headers)(seen, writer)

    server.answer = answer
    engine = make(CACHE_SECONDS=60)
    assert [await engine.execute({}, kit.call()) for _ in range(2)] == ["whole", "whole"]


async def test_a_304_that_nobody_asked_for_is_an_error(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"", "", 304)
    with pytest.raises(ExecutionFailed, match="304"):
        await make(CACHE_SECONDS=60).execute({}, kit.call())


async def test_a_caller_that_sets_conditions_itself_gets_the_service_s_word(
    make: Any, server: Any, kit: Any
) -> None:
    server.answer = counting(kit)
    place = {"mark": "header:If-None-Match"}
    engine = make(CACHE_SECONDS=60, parameters=["mark"], PARAMETER_PLACEMENT=place)
    assert [(await engine.execute({"mark": "x"}, kit.call()))["n"] for _ in range(2)] == [1, 2]


def held(kit: Any, answer: Any) -> tuple[Any, asyncio.Event, asyncio.Event]:
    """An answer that waits for the second event, after it set the first; both of the loop of the test."""
    arrived, gate, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

    async def write(seen: Any, writer: Any) -> None:
        loop.call_soon_threadsafe(arrived.set)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(gate.wait(), loop))
        await answer(seen, writer)

    return write, arrived, gate


async def test_equal_calls_at_once_ask_once(make: Any, server: Any, kit: Any) -> None:
    server.answer, arrived, gate = held(kit, counting(kit))
    engine = make(CACHE_SECONDS=60)
    found: list[Any] = []

    async def one() -> None:
        found.append(await engine.execute({}, kit.call()))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one)
        await arrived.wait()
        gate.set()
    assert found == [{"n": 1}] * 20
    assert len(server.seen) == 1


async def test_a_cancelled_call_leaves_its_request_to_another(make: Any, server: Any, kit: Any) -> None:
    server.answer, arrived, gate = held(kit, counting(kit))
    engine = make(CACHE_SECONDS=60)
    first = asyncio.create_task(engine.execute({}, kit.call()))
    await arrived.wait()
    others = [asyncio.create_task(engine.execute({}, kit.call())) for _ in range(5)]
    await asyncio.sleep(0)
    first.cancel()
    arrived.clear()
    await arrived.wait()
    gate.set()
    assert {json.dumps(found) for found in await asyncio.gather(*others)} <= {'{"n": 1}', '{"n": 2}'}
    assert len(server.seen) == 2
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_call_without_time_leaves_its_request_to_one_other(make: Any, server: Any, kit: Any) -> None:
    server.answer, arrived, gate = held(kit, counting(kit))
    engine = make(CACHE_SECONDS=60)
    first = asyncio.create_task(engine.execute({}, kit.call(0.2)))
    await arrived.wait()
    others = [asyncio.create_task(engine.execute({}, kit.call())) for _ in range(5)]
    arrived.clear()
    with pytest.raises(CallTimeout):
        await first
    await arrived.wait()
    gate.set()
    await asyncio.gather(*others)
    assert len(server.seen) == 2


async def test_who_waits_for_another_s_request_has_a_deadline_of_its_own(
    make: Any, server: Any, kit: Any
) -> None:
    server.answer, arrived, gate = held(kit, counting(kit))
    engine = make(CACHE_SECONDS=60)
    first = asyncio.create_task(engine.execute({}, kit.call()))
    await arrived.wait()
    with pytest.raises(CallTimeout):
        await engine.execute({}, kit.call(0.05))
    gate.set()
    assert await first == {"n": 1}


async def test_what_may_not_be_kept_is_not_shared_either(make: Any, server: Any, kit: Any) -> None:
    server.answer, arrived, gate = held(kit, counting(kit, Cache_Control="no-store"))
    engine = make(CACHE_SECONDS=60)
    calls = [asyncio.create_task(engine.execute({}, kit.call())) for _ in range(4)]
    await arrived.wait()
    gate.set()
    assert sorted(found["n"] for found in await asyncio.gather(*calls)) == [1, 2, 3, 4]


async def test_pages_are_kept_one_by_one(make: Any, server: Any, kit: Any) -> None:
    async def answer(seen: Any, writer: Any) -> None:
        page = int(seen.target.rpartition(b"=")[2])
        await kit.plain(b"[%d]" % page if page < 3 else b"[]")(seen, writer)

    server.answer = answer
    keys: Any = {"PAGINATION": {"style": "page", "parameter": "p"}, "CACHE_SECONDS": 60}
    engine, stream = make(**keys), make(StreamRestEngine, **keys)
    for _ in range(2):
        assert await engine.execute({}, kit.call()) == [1, 2]
        assert [item async for item in stream.execute({}, kit.call())] == [1, 2]
    assert len(server.seen) == 6


async def test_a_closed_engine_leaves_nothing_behind(make: Any, server: Any, kit: Any) -> None:
    server.answer = counting(kit)
    before = Cache.here().size
    engine = make(CACHE_SECONDS=60)
    await engine.execute({}, kit.call())
    assert Cache.here().size > before
    await engine.close()
    assert Cache.here().size == before


def message(path: int) -> Message:
    return Message("GET", Origin("http", "h", 80), b"/%d" % path, (), b"")


async def ask(cache: Cache, path: int, body: bytes = b"x" * 1000, **headers: str) -> bool:
    """Whether the service was asked."""
    asked: list[int] = []

    async def fetch(conditions: Any) -> Answer:
        asked.append(path)
        return Answer(200, headers, body)

    await cache.answer("owner", message(path), 60.0, fetch, lambda: None)
    return bool(asked)


async def test_the_least_used_answers_give_way() -> None:
    cache = Cache(most_bytes=3 * 2100)
    assert [await ask(cache, path) for path in (1, 2, 3, 1, 4, 1, 3, 2)] == [
        *(True, True, True, False, True, False, False, True),
    ]  # fmt: skip
    assert cache.size <= 3 * 2100
    assert await ask(cache, 9, b"x" * 10_000)
    assert await ask(cache, 9, b"x" * 10_000)
    assert await ask(Cache(), 1, b"x" * (MOST_OF_ONE + 1))


async def test_an_answer_gets_old() -> None:
    now = [0.0]
    cache = Cache(clock=lambda: now[0])
    assert await ask(cache, 1, **{"cache-control": "max-age=30"})
    now[0] = 29.0
    assert not await ask(cache, 1)
    now[0] = 31.0
    assert await ask(cache, 1)
    now[0] = 90.0
    assert not await ask(cache, 1)
    now[0] = 92.0
    assert await ask(cache, 1)


def test_expires_counts_where_no_max_age_does() -> None:
    now = datetime.now(UTC)
    headers = {"date": format_datetime(now), "expires": format_datetime(now + timedelta(seconds=20))}
    assert lifetime(Answer(200, headers, b""), 60.0) == 20.0
    assert lifetime(Answer(200, {**headers, "cache-control": "max-age=40"}, b""), 60.0) == 40.0
    assert lifetime(Answer(206, {}, b""), 60.0) is None


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["cache-control", "expires", "age", "date", "vary"]),
        st.text(max_size=20)
        | st.sampled_from(["max-age=99999999999999999999", "max-age=-1", 'max-age="5"', "=,="]),
    )
)
def test_no_header_of_a_service_keeps_an_answer_longer_than_the_file_says(headers: dict[str, str]) -> None:
    life = lifetime(Answer(200, headers, b""), 60.0)
    assert life is None or 0.0 <= life <= 60.0


async def test_a_failing_request_fails_for_each_who_waits(make: Any, server: Any, kit: Any) -> None:
    server.answer, arrived, gate = held(kit, kit.plain(b"no", "text/plain", 500))
    engine = make(CACHE_SECONDS=60)
    calls = [asyncio.create_task(engine.execute({}, kit.call())) for _ in range(3)]
    await arrived.wait()
    gate.set()
    failures = await asyncio.gather(*calls, return_exceptions=True)
    texts = {failure.message for failure in failures if isinstance(failure, EngineHostError)}
    assert texts == {f"f: 127.0.0.1:{server.port} answered 500: no"}
