"""The host for programs without an event loop, from any thread, through failures and interruptions."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from enginehost import Call, EngineContext, EngineHostError, Function, HostSettings, HostSync
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, run_mode
from enginehost.errors import ConfigError, EngineUnavailable, ExecutionFailed
from enginehost.signature import FunctionSignature

ANY = {"type": "object", "additionalProperties": True}
entered = threading.Event()
cleaned = threading.Event()


async def add(arguments: dict[str, Any], call: Call) -> Any:
    return arguments["a"] + arguments["b"]


async def fails(arguments: dict[str, Any], call: Call) -> None:
    raise ValueError("no such city")


async def waits(arguments: dict[str, Any], call: Call) -> None:
    entered.set()
    try:
        await asyncio.sleep(60)
    finally:
        cleaned.set()


async def count(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
    try:
        for number in range(arguments.get("to", 3)):
            yield number
            await asyncio.sleep(0)
        if arguments.get("hang"):
            entered.set()
            await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.01)
        cleaned.set()


class Several(AbstractFunctionEngine):
    """The functions above."""

    def functions(self) -> list[Function]:
        return [
            Function(
                FunctionSignature(run.__name__, "", ANY, streaming=run_mode(run).streams), run, run_mode(run)
            )
            for run in (add, fails, waits, count)
        ]


@contextmanager
def serving() -> Iterator[HostSync]:
    entered.clear()
    cleaned.clear()
    with HostSync(None, None, settings=HostSettings(drain_seconds=0.05)) as host:
        engine = Several(EngineContext("test"))
        host._run(host.host.add_engine(EngineRecord("test", "Test"), engine))
        yield host
    assert "enginehost" not in {thread.name for thread in threading.enumerate()}


def interrupt_when_entered() -> threading.Thread:
    """Ctrl-C for the main thread, once the function runs."""

    def interrupt() -> None:
        assert entered.wait(10)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


def test_threads_share_one_host() -> None:
    with serving() as host, ThreadPoolExecutor(8) as pool:
        sums = pool.map(lambda n: host.call("add", {"a": n, "b": 1}), range(200))
        assert list(sums) == list(range(1, 201))
        assert [entry.name for entry in host.functions()] == ["add", "count", "fails", "waits"]
        assert len(host.tools()) == 4


def test_exceptions_arrive_as_they_are() -> None:
    with serving() as host:
        with pytest.raises(ExecutionFailed, match="no such city") as caught:
            host.call("fails")
        assert isinstance(caught.value.__cause__, ValueError)


def test_an_interrupted_call_is_cancelled_and_the_host_goes_on() -> None:
    with serving() as host:
        thread = interrupt_when_entered()
        with pytest.raises(KeyboardInterrupt):
            host.call("waits")
        thread.join()
        assert cleaned.wait(10)
        assert host.call("add", {"a": 1, "b": 2}) == 3


def test_an_interrupted_stream_is_closed_and_the_interruption_stays_one() -> None:
    with serving() as host:
        thread = interrupt_when_entered()
        with pytest.raises(KeyboardInterrupt):
            list(host.stream("count", {"hang": True}))
        thread.join()
        assert cleaned.is_set()
        assert list(host.stream("count")) == [0, 1, 2]


def test_a_stream_that_is_left_is_closed() -> None:
    with serving() as host:
        stream = host.stream("count", {"to": 100})
        assert next(stream) == 0
        stream.close()  # type: ignore[attr-defined]
        assert cleaned.is_set()
        left = host.stream("count", {"to": 100})
        assert next(left) == 0
    with pytest.raises(EngineUnavailable):
        next(left)


@pytest.mark.parametrize("holder", ["this thread", "one that has ended"])
def test_a_stream_that_is_left_open_does_not_hold_up_the_stop_and_is_recorded(
    tmp_path: Path, holder: str
) -> None:
    audit = tmp_path / "audit.jsonl"
    settings = HostSettings(drain_seconds=600, audit={"path": audit})  # type: ignore[arg-type]
    cleaned.clear()
    with HostSync(None, None, settings=settings) as host:
        host._run(host.host.add_engine(EngineRecord("test", "Test"), Several(EngineContext("test"))))
        left = host.stream("count", {"to": 100})
        thread = threading.Thread(target=next, args=(left,))
        if holder == "this thread":
            thread.run()
        else:
            thread.start()
            thread.join()
    assert cleaned.is_set()
    (line,) = map(json.loads, audit.read_text().splitlines())
    assert (line["function"], line["outcome"]) == ("count", "cancelled")


def test_threads_that_wait_when_the_host_stops_are_answered() -> None:
    outcomes: list[Any] = []

    def wait(host: HostSync) -> None:
        try:
            host.call("waits")
        except EngineHostError as error:
            outcomes.append(error.code)

    def hammer(host: HostSync) -> None:
        try:
            while True:
                host.call("add", {"a": 1, "b": 2})
        except EngineHostError as error:
            outcomes.append(error.code)

    with serving() as host:
        threads = [threading.Thread(target=work, args=(host,)) for work in (wait, wait, hammer, hammer)]
        for thread in threads:
            thread.start()
        assert entered.wait(10)
    deadline = time.monotonic() + 10
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        assert not thread.is_alive()
    assert sorted(outcomes) == ["engine_unavailable"] * 2 + ["outcome_unknown"] * 2  # the waiting had begun


def test_a_host_that_does_not_run_says_so() -> None:
    host = HostSync(None, None, settings=HostSettings())
    with pytest.raises(EngineUnavailable, match=r"does not run yet: use `with HostSync.*`host.start\(\)`"):
        host.call("add")
    host.stop()
    with host:
        host.stop()
        with pytest.raises(EngineUnavailable, match="does not run any more"):
            host.functions()
    with pytest.raises(RuntimeError, match="starts once"):
        host.start()


def test_a_start_that_fails_leaves_no_thread(tmp_path: Path) -> None:
    host = HostSync(None, None, settings=HostSettings(audit={"path": tmp_path}))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="audit"):
        host.start()
    left = {thread.name for thread in threading.enumerate()}
    assert not left & {"enginehost", "enginehost-records"}


def test_the_hosts_own_thread_is_told_instead_of_hanging() -> None:
    with serving() as host:

        async def calls_itself(arguments: dict[str, Any], call: Call) -> Any:
            return host.call("add", {"a": 1, "b": 2})

        class Odd(Several):
            def functions(self) -> list[Function]:
                return [Function(FunctionSignature("odd", "", ANY), calls_itself)]

        host._run(host.host.add_engine(EngineRecord("odd", "Test"), Odd(EngineContext("odd"))))
        with pytest.raises(ExecutionFailed, match="wait for itself"):
            host.call("odd")


def test_slips_of_the_program_are_told_as_its_own() -> None:
    with serving() as host:
        for wrong in ({"timeout": "x"}, {"timeout": True}, {"caller": "ada"}):
            with pytest.raises(TypeError, match=next(iter(wrong))):
                host.call("add", {"a": 1, "b": 2}, **wrong)  # pyright: ignore[reportArgumentType]
            with pytest.raises(TypeError, match=next(iter(wrong))):
                list(host.stream("add", {"a": 1, "b": 2}, **wrong))  # pyright: ignore[reportArgumentType]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with HostSync(tmp_path / "nosuch", databus=None, settings=HostSettings()) as host:
        assert [found.code for found in host.host.own_problems()] == ["folder-missing"]
    assert "there is no folder" in caplog.text


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    with pytest.raises(ConfigError, match=r"README\.md is no folder"):
        HostSync(tmp_path / "README.md", databus=None, settings=HostSettings())
