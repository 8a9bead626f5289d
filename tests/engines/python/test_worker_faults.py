"""LocalPython: what functions do to their process, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from enginehost.engine import CURRENT, Call
from enginehost.errors import ExecutionFailed
from enginehost_engines.worker.memory import own_bytes

from .conftest import Engines, alive, children, eventually, function_of

FAULTS = """
import asyncio, ctypes, os, signal, subprocess, sys, threading, time

def ok(): return "ok"
def leave(): sys.exit(3)
def leave_at_once(): os._exit(3)
def segfault(): ctypes.string_at(0)
def recurse(): return recurse()
def overflow():
    sys.setrecursionlimit(10**9)
    class Deep:
        def __repr__(self): return repr(self)
    return repr(Deep())
def killed(): os.kill(os.getpid(), signal.SIGKILL)
def fork_and_return():
    return "parent" if os.fork() else "child"
def fork_and_exit():
    pid = os.fork()
    if not pid:
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def daemonise():
    read, write = os.pipe()
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.write(write, str(os.getpid()).encode())
            time.sleep(3600)
        os._exit(0)
    return int(os.read(read, 20))
def daemonise_and_leave(mark):
    open(mark, "w").write(str(daemonise()))
    os._exit(1)
def close_all():
    os.closerange(3, 256)
    return "closed"
def close_all_and_wait():
    os.closerange(3, 256)
    time.sleep(3600)
async def close_all_async():
    os.closerange(3, 256)
    await asyncio.sleep(3600)
def never_ending_thread():
    def spin():
        while True: time.sleep(0.01)
    threading.Thread(target=spin).start()
    return "started"
def flood(mb):
    for _ in range(mb):
        os.write(1, (b"x" * 1023 + b"\\n") * 1024)
def stop_itself():
    os.kill(os.getpid(), signal.SIGSTOP)
def bad_exit():
    import atexit
    atexit.register(time.sleep, 3600)
"""


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("leave", Exception, "3"),
        ("recurse", Exception, "recursion"),
        ("overflow", ExecutionFailed, "SIGSEGV"),
        ("killed", ExecutionFailed, "SIGKILL"),
        ("close_all", ExecutionFailed, "worker process ended"),
        ("close_all_and_wait", ExecutionFailed, "closed its connection"),
    ],
)
async def test_what_a_function_does_to_its_process_hurts_only_that_call(
    engines: Engines, name: str, error: type[Exception], text: str
) -> None:
    engine, other = engines.make(name, script=FAULTS), engines.make("ok", script=FAULTS)
    calls = [engines.call(other), engines.call(engine), engines.call(other)]
    good, bad, again = await asyncio.gather(*calls, return_exceptions=True)
    assert (good, again) == ("ok", "ok")
    assert isinstance(bad, error)
    assert text in str(bad)
    assert await engines.call(other) == "ok"


async def test_a_forked_copy_of_a_worker_answers_for_nobody(engines: Engines) -> None:
    returns = engines.make("fork_and_return", script=FAULTS)
    exits = engines.make("fork_and_exit", script=FAULTS)
    for _ in range(10):
        assert await engines.call(returns) == "parent"
        assert await engines.call(exits) == 7


async def test_a_daemon_that_a_function_left_behind_ends_with_its_worker(engines: Engines) -> None:
    engine = engines.make("daemonise", script=FAULTS)
    pid = await engines.call(engine)
    assert alive(pid)
    await engine.close()
    await eventually(lambda: not alive(pid))


async def test_a_daemon_of_a_worker_that_died_is_found_too(engines: Engines) -> None:
    mark = engines.folder / "mark"
    engine = engines.make("daemonise_and_leave", script=FAULTS)
    with pytest.raises(ExecutionFailed):
        await engines.call(engine, mark=str(mark))
    await eventually(lambda: not alive(int(mark.read_text())))


async def test_a_worker_that_lost_its_connection_while_it_waits_fails_its_calls(engines: Engines) -> None:
    engine = engines.make("close_all_async", script=FAULTS)
    with pytest.raises(ExecutionFailed, match="worker process ended"):
        await engines.call(engine)


@pytest.mark.parametrize("name", ["never_ending_thread", "bad_exit"])
async def test_a_worker_that_does_not_end_is_ended(
    engines: Engines, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginehost_engines.worker.process.CLOSE_SECONDS", 0.2)
    before = children()
    engine = engines.make(name, script=FAULTS)
    await engines.call(engine)
    await engine.close()
    assert children() <= before


async def test_a_flood_past_python_is_cut_in_the_log_and_said_once(
    engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    await engines.call(engines.make("flood", script=FAULTS), mb=6)
    assert await engines.call(engines.make("ok", script=FAULTS)) == "ok"
    assert len(caplog.text) < 3 << 20
    assert caplog.text.count("prints more than") == 1


async def test_what_a_call_prints_carries_its_ids(engines: Engines, caplog: pytest.LogCaptureFixture) -> None:
    engine = engines.make(
        "f", script="import os\ndef f():\n    print('by python')\n    os.write(1, b'raw\\n')"
    )
    call = Call("f", span=7, trace=9)
    token = CURRENT.set(call)
    try:
        with caplog.at_level("INFO"):
            await function_of(engine).run({}, call)
    finally:
        CURRENT.reset(token)
    (line,) = [record for record in caplog.records if record.getMessage() == "by python"]
    assert line.__dict__["call_id"] == call.call_id
    assert line.__dict__["chain_id"] == call.chain_id


# nothing leaks


async def test_nothing_leaks_over_two_hundred_mixed_calls(engines: Engines) -> None:
    names = ["ok", "leave", "leave_at_once", "recurse", "killed", "fork_and_return", "daemonise", "close_all"]
    before = _state(children())
    made = [engines.make(name, script=FAULTS) for name in names]
    spins = engines.make("spin")
    streams = engines.make("numbers_async")
    counts: list[tuple[int, ...]] = []
    half = 0
    for _ in range(2):
        for _ in range(10):
            calls = [engines.call(engine) for engine in made]
            await asyncio.gather(
                *calls, _cut(engines.call(spins)), _taste(engines, streams), return_exceptions=True
            )
        counts.append(_state(children()))
        half = half or own_bytes(os.getpid())
    for engine in (*made, spins, streams):
        await engine.close()
    await eventually(lambda: _state(children()) <= before)
    gc.collect()
    assert own_bytes(os.getpid()) < half + (16 << 20)
    assert counts[1][1] <= counts[0][1] + 8, "open files"


async def _cut(call: Any) -> None:
    async with asyncio.timeout(0.02):
        await call


async def _taste(engines: Engines, engine: Any) -> None:
    async with aclosing(engines.stream(engine, upto=1000)) as items:
        await anext(items)


def _state(own: set[int]) -> tuple[int, int, int]:
    """Processes, open files, threads (without those that the loop keeps for what is done aside)."""
    threads = [one for one in threading.enumerate() if not one.name.startswith("asyncio_")]
    return len(own), len(list(Path("/proc/self/fd").iterdir())), len(threads)
