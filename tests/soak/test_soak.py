"""A host under everything at once, for minutes: each call has its answer, and nothing is left behind.

``ENGINEHOST_SOAK_SECONDS`` says how long (300).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest

from enginehost.errors import (
    CallTimeout,
    EngineUnavailable,
    ExecutionFailed,
    InvalidArguments,
    OutcomeUnknown,
    UnknownFunction,
)
from enginehost.host import Host
from enginehost.serve import HttpServer
from enginehost.settings import HostSettings
from enginehost.testing.leftovers import leftovers, snapshot

from .conftest import PARAMETERS, Files, service

SECONDS = float(os.environ.get("ENGINEHOST_SOAK_SECONDS", "300"))
CALLERS = 12
WARM_UP = 1 / 3
"""The part of the time after which memory is looked at first: what is kept on purpose is there then."""
LOST_SECONDS = 120.0
"""After these a call counts as lost."""
MANY = 20
"""Calls of one move, where they are cheap."""

MOST_NEW_BYTES = 16 * 1024 * 1024
MOST_NEW_OBJECTS = 2_000
KEPT_OF_AN_EDIT = 12
"""Objects: what is known of the latest scripts is kept."""

EVENTS = {"accept": "text/event-stream"}

pytestmark = [pytest.mark.soak, pytest.mark.timeout(SECONDS + 600)]


@pytest.fixture(autouse=True)
def no_records() -> Iterator[None]:
    """pytest keeps every log record, which is no leak of ours."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def anyio_backend() -> Any:
    """The loop that ``enginehost run`` has."""
    return "asyncio", {"use_uvloop": True}


class Moves:
    """What a caller may do. Each asserts that it ended as it must, whatever goes on beside it."""

    def __init__(self, host: Host, client: httpx2.AsyncClient, files: Files, random: Random) -> None:
        self.host, self.client, self.files, self.random = host, client, files, random

    def any(self) -> Callable[[], Coroutine[Any, Any, None]]:
        """One of the moves below."""
        return getattr(self, self.random.choice(MOVES))

    async def adds(self) -> None:
        name = self.random.choice(("add", "add_async", "add_reactor"))
        for n in range(MANY):
            assert await self.host.call(name, {"a": n, "b": 1}) == n + 1

    async def gets_large_results(self) -> None:
        assert len(await self.host.call("large", {"size": 300_000})) == 300_000

    async def makes_mistakes(self) -> None:
        for arguments in ({}, {"a": 1}, {"a": 1, "b": 2, "c": 3}):
            with pytest.raises(InvalidArguments):
                await self.host.call("add", arguments)
        with pytest.raises(UnknownFunction):
            await self.host.call(f"nobody {self.random.random()}")

    async def hears_of_failures(self) -> None:
        for _ in range(MANY):
            with pytest.raises(ExecutionFailed, match="so it goes"):
                await self.host.call("fail", {"text": "so it goes"})

    async def loses_patience_with_deadlines(self) -> None:
        name = self.random.choice(("nap", "nap_async", "nap_stream"))
        with pytest.raises(CallTimeout):
            await self.host.call(name, timeout=self.random.uniform(0.001, 0.2))

    async def goes_away_from_calls(self) -> None:
        name = self.random.choice(("nap", "nap_async", "nap_stream"))
        call = asyncio.create_task(self.host.call(name))
        await asyncio.wait({call}, timeout=self.random.uniform(0, 0.1))
        call.cancel()
        await asyncio.wait({call})
        assert call.cancelled()

    async def loses_workers(self) -> None:
        with pytest.raises(ExecutionFailed, match="its worker process ended"):
            await self.host.call("crash", {"how": self.random.choice(("exit", "signal"))})

    async def loses_shared_workers(self) -> None:
        with pytest.raises((ExecutionFailed, OutcomeUnknown)):
            await self.host.call("crash_async")

    async def reads_streams(self) -> None:
        name, upto = self.random.choice(("numbers", "numbers_async")), self.random.randrange(200)
        assert [item async for item in self.host.stream(name, {"upto": upto})] == list(range(upto))

    async def leaves_streams(self) -> None:
        name, enough = self.random.choice(("numbers", "numbers_async")), self.random.randrange(50)
        async with aclosing(self.host.stream(name, {"upto": 10**9})) as items:  # type: ignore[type-var]
            async for item in items:
                if item >= enough:
                    break

    async def asks_services(self) -> None:
        assert await self.host.call("ask", {"what": "weather"}) == "well"
        for what in ("failure", "nothing"):
            with pytest.raises(ExecutionFailed):
                await self.host.call("ask", {"what": what})
        with pytest.raises(CallTimeout):
            await self.host.call("ask", {"what": "silence"}, timeout=0.1)

    async def calls_what_changes(self) -> None:
        assert 1 <= await self.host.call("edited") <= self.files.version

    async def calls_what_comes_and_goes(self) -> None:
        with suppress(UnknownFunction, EngineUnavailable):
            assert await self.host.call("guest") == "here"

    async def calls_over_http_and_errs(self) -> None:
        for arguments, status in (({"a": 1, "b": 2}, 200), ({"a": 1}, 422), ([], 400)):
            answer = await self.client.post("/v1/functions/add_async", json=arguments)
            assert answer.status_code == status, answer.text
        for path in ("/metrics", "/v1/tools", "/openapi.json"):
            assert (await self.client.get(path)).status_code == 200

    async def leaves_http_streams(self) -> None:
        path, body = "/v1/functions/numbers_async", {"upto": 10**9}
        async with self.client.stream("POST", path, json=body, headers=EVENTS) as response:
            async for line in response.aiter_lines():
                if self.random.random() < 0.05 and line:
                    break

    async def leaves_http_calls(self) -> None:
        call = asyncio.create_task(self.client.post("/v1/functions/nap_async", json={}))
        await asyncio.wait({call}, timeout=self.random.uniform(0, 0.1))
        call.cancel()
        await asyncio.wait({call})
        assert call.cancelled()


MOVES = [name for name, move in vars(Moves).items() if asyncio.iscoroutinefunction(move)]


class Crowd:
    """Callers that make one move after the other, and somebody who works on the files meanwhile."""

    def __init__(self, moves: Moves) -> None:
        self.moves = moves
        self.made = Counter[str]()
        self.over = False

    async def live(self, seconds: float) -> None:
        """Go on for so long; then everybody ends what they have begun. Raises the first thing amiss."""
        self.over = False
        asyncio.get_running_loop().call_later(seconds, self._end)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._edit())
            for _ in range(CALLERS):
                group.create_task(self._call())

    def _end(self) -> None:
        self.over = True

    async def _call(self) -> None:
        while not self.over:
            move = self.moves.any()
            async with asyncio.timeout(LOST_SECONDS):
                await move()
            self.made[move.__name__] += 1
            await asyncio.sleep(0)  # a call that is refused at once gives nobody a turn

    async def _edit(self) -> None:
        while not self.over:
            self.moves.files.disturb(self.moves.random)
            await asyncio.sleep(self.moves.random.uniform(0, 0.5))


def memory() -> tuple[int, int]:
    """Resident bytes, and objects that the collector knows."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(gc.get_objects())


def open_files() -> set[str]:
    found: set[str] = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{link.name}: {link.readlink()}")
        except FileNotFoundError:  # that of the listing itself
            continue
    return found


async def until(condition: Callable[[], Any], what: str) -> None:
    try:
        async with asyncio.timeout(LOST_SECONDS):
            while not condition():
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"still not: {what}")


@asynccontextmanager
async def everything(folder: Path, settings: HostSettings) -> AsyncIterator[Moves]:
    """A service, a host on a folder that asks it, its HTTP server and a client of that."""
    async with service() as address:
        files = Files(folder, address)
        async with Host(folder, None, settings=settings) as host:
            server = HttpServer(host, "127.0.0.1:0")
            await server.start()
            try:
                async with httpx2.AsyncClient(base_url=server.url, timeout=LOST_SECONDS) as client:
                    yield Moves(host, client, files, Random(SECONDS))
            finally:
                await server.stop()


async def test_a_host_under_everything_answers_each_call_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = HostSettings(state_dir=tmp_path / "state", audit={"path": tmp_path / "audit.jsonl"})  # type: ignore[arg-type]
    async with everything(tmp_path / "first", settings):
        pass  # what one host leaves for the next, such as threads of the loop's own, is there now
    before, files_before = snapshot(), open_files()
    async with everything(tmp_path / "smss", settings) as moves:
        host, crowd = moves.host, Crowd(moves)
        await until(lambda: {"ask", "edited"} <= {entry.name for entry in host.functions()}, "all functions")

        await crowd.live(SECONDS * WARM_UP)
        await until(lambda: host.in_flight == 0, "no call in flight")
        bytes_first, objects_first = memory()
        edits = moves.files.version
        await crowd.live(SECONDS * (1 - WARM_UP))
        await until(lambda: host.in_flight == 0, "no call in flight")
        bytes_last, objects_last = memory()
        edits = moves.files.version - edits

        moves.files.edit()
        newest = moves.files.version
        async with asyncio.timeout(LOST_SECONDS):
            while await host.call("edited") != newest:
                await asyncio.sleep(0.05)
        assert set(PARAMETERS) <= {entry.name for entry in host.functions()}
        left = [asyncio.create_task(host.call("nap_async")) for _ in range(50)]
        await until(lambda: host.in_flight == 50, "50 calls in flight")
        await host.stop(drain=0.1)
        answers = await asyncio.gather(*left, return_exceptions=True)
        assert {type(answer) for answer in answers} <= {EngineUnavailable, OutcomeUnknown}

    told = {move: crowd.made[move] for move in sorted(crowd.made)}
    grown = bytes_last - bytes_first, objects_last - objects_first
    with capsys.disabled():
        sys.stdout.write(f"\n{crowd.made.total()} moves: {told}\ngrown by %d bytes, %d objects\n" % grown)
    assert set(crowd.made) == set(MOVES)
    assert not await leftovers(before, within=30)
    assert open_files() <= files_before
    assert grown[0] < MOST_NEW_BYTES
    assert grown[1] < MOST_NEW_OBJECTS + KEPT_OF_AN_EDIT * edits
