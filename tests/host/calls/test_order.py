"""Which error a call gets that several things are wrong with: that of the step which comes first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import combinations
from typing import Any

import pytest

from enginehost import Call, Caller, Host, Limits
from enginehost.errors import (
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    Forbidden,
    InvalidArguments,
    Overloaded,
    UnknownFunction,
)

from .conftest import function, serving

STEPS: dict[str, tuple[type[EngineHostError], str]] = {
    "stopping": (EngineUnavailable, "the host is stopping"),
    "crowded host": (Overloaded, "the host runs 1 call at once"),
    "hidden": (UnknownFunction, "^no function named 'f'$"),
    "forbidden": (Forbidden, "eve may not call f"),
    "rate": (Overloaded, "f has reached its rate limit"),
    "arguments": (InvalidArguments, 'at /odd: "odd" is not of type "boolean"'),
    "places": (Overloaded, "f runs 1 call at once and its queue is full"),
    "function": (ExecutionFailed, "it broke"),
}
"""What may be wrong, in the order of the call path, and the error that tells of it."""

SCHEMA = {"type": "object", "properties": {name: {"type": "boolean"} for name in ("hold", "fail", "odd")}}
EVE, OWNER = Caller("eve"), Caller("owner")


async def by_call(host: Host, arguments: dict[str, Any]) -> Any:
    return await host.call("f", arguments, caller=EVE)


async def by_stream(host: Host, arguments: dict[str, Any]) -> Any:
    return [item async for item in host.stream("f", arguments, caller=EVE)]


async def by_call_json(host: Host, arguments: dict[str, Any]) -> Any:
    return await host.call_json(host.new_call("f", EVE), arguments)


async def by_stream_json(host: Host, arguments: dict[str, Any]) -> Any:
    return [item async for item in host.stream_json(host.new_call("f", EVE), arguments)]


Way = Callable[[Host, dict[str, Any]], Awaitable[Any]]
WAYS: list[Way] = [by_call, by_stream, by_call_json, by_stream_json]


class Faulty:
    """The function ``f``, and how often it was reached by the call in question."""

    def __init__(self) -> None:
        self.reached = 0
        self.held, self.release = asyncio.Event(), asyncio.Event()

    async def run(self, arguments: dict[str, Any], call: Call) -> str:
        if arguments.get("hold"):
            self.held.set()
            await self.release.wait()
        self.reached += call.caller is EVE
        if arguments.get("fail"):
            raise RuntimeError("it broke")
        return "done"

    async def items(self, arguments: dict[str, Any], call: Call) -> AsyncGenerator[str, None]:
        yield await self.run(arguments, call)


@asynccontextmanager
async def wrong(faults: set[str], faulty: Faulty, run: Callable[..., Any]) -> AsyncGenerator[Host, None]:
    """A host at which ``eve``'s calls of ``f``, one in each way, meet these faults and no others."""
    holding = faults & {"crowded host", "places", "stopping"}
    limits = Limits(
        max_concurrency=1 if "places" in faults else None,
        queue_limit=0,
        rate=0.001,
        burst=1 if "rate" in faults else 1 + len(WAYS),
    )
    eve = [] if "hidden" in faults else [{"allow": "view" if "forbidden" in faults else "call"}]
    policy = {
        "rules": [{"allow": "call", "subjects": ["owner"]}, *(one | {"subjects": ["eve"]} for one in eve)]
    }
    more: dict[str, Any] = {"max_in_flight": 1} if "crowded host" in faults else {}
    async with serving(function(run, parameters=SCHEMA, limits=limits), policy=policy, **more) as host:
        first = asyncio.create_task(host.call("f", {"hold": bool(holding)}, caller=OWNER))
        await (faulty.held.wait() if holding else first)
        stop = asyncio.create_task(host.stop(drain=60)) if "stopping" in faults else None
        while host.accepting and stop is not None:
            await asyncio.sleep(0)
        yield host
        faulty.release.set()
        assert await first in ("done", ["done"])
        if stop is not None:
            await stop


def arguments_of(faults: set[str]) -> dict[str, Any]:
    sent: dict[str, Any] = {"fail": True} if "function" in faults else {}
    return sent | ({"odd": "odd"} if "arguments" in faults else {})


@pytest.mark.parametrize("streams", [False, True], ids=["plain", "streams"])
@pytest.mark.parametrize("faults", [*combinations(STEPS, 2)], ids=" and ".join)
async def test_of_two_faults_the_one_whose_step_comes_first_is_told(
    faults: tuple[str, str], streams: bool
) -> None:
    kind, text = STEPS[faults[0]]
    faulty = Faulty()
    async with wrong(set(faults), faulty, faulty.items if streams else faulty.run) as host:
        for way in WAYS:
            with pytest.raises(kind, match=text) as told:
                await way(host, arguments_of(set(faults)))
            assert type(told.value) is kind
    assert faulty.reached == 0


@pytest.mark.parametrize("fault", STEPS)
async def test_each_fault_is_told_where_it_is_the_only_one(fault: str) -> None:
    kind, text = STEPS[fault]
    faulty = Faulty()
    async with wrong({fault}, faulty, faulty.run) as host:
        with pytest.raises(kind, match=text):
            await by_call(host, arguments_of({fault}))
    assert faulty.reached == (fault == "function")


async def test_a_call_that_may_not_be_made_uses_up_no_rate_and_one_that_does_not_fit_does() -> None:
    faulty = Faulty()
    limits = Limits(rate=0.001, burst=2)
    policy = {"default": "view", "rules": [{"allow": "call", "subjects": ["owner"]}]}
    async with serving(function(faulty.run, parameters=SCHEMA, limits=limits), policy=policy) as host:
        for _ in range(5):
            with pytest.raises(Forbidden):
                await by_call(host, {})
        with pytest.raises(InvalidArguments):
            await host.call("f", {"odd": "odd"}, caller=OWNER)
        assert await host.call("f", {}, caller=OWNER) == "done"
        with pytest.raises(Overloaded):
            await host.call("f", {}, caller=OWNER)


async def test_a_call_that_does_not_fit_takes_no_place() -> None:
    faulty = Faulty()
    limits = Limits(max_concurrency=1, queue_limit=0)
    async with serving(function(faulty.run, parameters=SCHEMA, limits=limits)) as host:
        for way in WAYS:
            with pytest.raises(InvalidArguments):
                await way(host, {"odd": "odd"})
            assert await way(host, {}) in ("done", ["done"], b'"done"', [b'"done"'])
        assert host.in_flight == 0
