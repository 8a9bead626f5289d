"""What takes a while with a large value, or a hard schema, holds up nobody else and ends with the call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from enginehost import Call, EngineContext, Function, Host, HostSettings, runtime
from enginehost import host as host_module
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, current_call, run_mode
from enginehost.errors import CallTimeout, InvalidArguments, ResultInvalid
from enginehost.schema_walk import TooMuch
from enginehost.signature import FunctionSignature
from enginehost.validation import Validator

NUMBER = {"type": "number"}
NUMBERS = {"type": "object", "properties": {"a": NUMBER}}


async def same(arguments: dict[str, Any], call: Call) -> Any:
    return arguments["a"]


async def text(arguments: dict[str, Any], call: Call) -> Any:
    return "text"


async def grown(arguments: dict[str, Any], call: Call) -> Any:
    current = current_call()
    assert current is not None
    current.large = True
    return arguments["a"]


async def numbers(arguments: dict[str, Any], call: Call) -> AsyncIterator[Any]:
    yield arguments["a"]
    yield "text"


class Several(AbstractFunctionEngine):
    def functions(self) -> list[Function]:
        return [
            Function(
                FunctionSignature(
                    run.__name__, parameters=NUMBERS, result=NUMBER, streaming=run_mode(run).streams
                ),
                run,
                run_mode(run),
            )
            for run in (same, text, grown, numbers)
        ]


@asynccontextmanager
async def serving() -> AsyncIterator[Host]:
    async with Host(None, None, settings=HostSettings()) as host:
        await host.add_engine(EngineRecord("test", "Test"), Several(EngineContext("test")))
        yield host


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[int]]:
    """On which threads arguments were checked in full, and results were encoded."""
    seen: dict[str, set[int]] = {"check_arguments": set(), "encode": set()}

    def watch(module: Any, name: str) -> None:
        real = getattr(module, name)

        def watched(*given: Any, **options: Any) -> Any:
            seen[name].add(threading.get_ident())
            return real(*given, **options)

        monkeypatch.setattr(module, name, watched)

    watch(runtime, "check_arguments")
    watch(host_module, "encode")
    return seen


async def answer(host: Host, name: str, arguments: dict[str, Any], *, large: bool) -> bytes:
    call = host.new_call(name)
    call.large = large
    return await host.call_json(call, arguments)


async def test_a_small_call_is_checked_and_answered_on_the_loop(threads: Any) -> None:
    async with serving() as host:
        assert await answer(host, "same", {"a": 1}, large=False) == b"1"
        with pytest.raises(InvalidArguments, match="at /a"):
            await answer(host, "same", {"a": "1"}, large=False)
    assert threads == {"check_arguments": {threading.get_ident()}, "encode": {threading.get_ident()}}


async def test_large_arguments_are_explained_and_their_result_written_on_a_thread(threads: Any) -> None:
    async with serving() as host:
        assert await answer(host, "same", {"a": 1}, large=True) == b"1"
        with pytest.raises(InvalidArguments, match="at /a"):
            await answer(host, "same", {"a": "1"}, large=True)
        with pytest.raises(ResultInvalid, match="text answered with what its signature forbids"):
            await answer(host, "text", {}, large=True)
    assert all(threads.values())
    assert threading.get_ident() not in threads["check_arguments"] | threads["encode"]


async def test_a_result_that_is_large_is_written_on_a_thread(threads: Any) -> None:
    async with serving() as host:
        assert await answer(host, "grown", {"a": 1}, large=False) == b"1"
    assert threads["encode"]
    assert threading.get_ident() not in threads["encode"]


async def test_the_items_of_a_large_stream_are_checked_and_written_on_a_thread(threads: Any) -> None:
    async with serving() as host:
        call = host.new_call("numbers")
        call.large = True
        items = host.stream_json(call, {"a": 1})
        assert await anext(items) == b"1"
        with pytest.raises(ResultInvalid):
            await anext(items)
    assert threads["encode"]
    assert threading.get_ident() not in threads["encode"]


async def test_the_one_result_of_a_plain_function_is_checked_in_a_stream_too() -> None:
    async with serving() as host:
        assert [item async for item in host.stream("same", {"a": 1})] == [1]
        with pytest.raises(ResultInvalid, match="forbids"):
            await anext(host.stream("text"))


SLOW: dict[str, tuple[str, Callable[[Host, float], Any]]] = {
    "arguments": ("errors", lambda host, seconds: host.call("same", {"a": "1"}, timeout=seconds)),
    "result": ("broken_rule", lambda host, seconds: host.call("text", timeout=seconds)),
    "arguments of a stream": (
        "errors",
        lambda host, seconds: anext(host.stream("same", {"a": "1"}, timeout=seconds)),
    ),
    "item": (
        "broken_rule",
        lambda host, seconds: anext(host.stream("text", timeout=seconds)),
    ),
    "collected item": ("broken_rule", lambda host, seconds: host.call("numbers", {"a": 1}, timeout=seconds)),
}


@pytest.mark.parametrize("what", SLOW)
async def test_an_explanation_that_takes_a_while_holds_up_nobody_and_ends_with_the_call(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    explain, call = SLOW[what]
    asked, go_on = threading.Event(), threading.Event()
    real = getattr(Validator, explain)

    def slow(self: Validator, instance: Any, *, hurry: bool = False) -> Any:
        if hurry:
            raise TooMuch
        asked.set()
        assert go_on.wait(20)
        return real(self, instance)

    monkeypatch.setattr(Validator, explain, slow)
    async with serving() as host:
        try:
            waiting = asyncio.ensure_future(call(host, 20.0))
            assert await asyncio.to_thread(asked.wait, 20)
            assert await host.call("same", {"a": 1}) == 1
            with pytest.raises(CallTimeout):
                await call(host, 0.05)
        finally:
            go_on.set()
        with pytest.raises(InvalidArguments if "arguments" in what else ResultInvalid):
            await waiting
