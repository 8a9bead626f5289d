"""LocalPython: how worker processes begin, are bounded, are replaced, and end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host, HostSettings
from enginehost.engine import EngineState, HostAccess
from enginehost.errors import CallTimeout, EngineUnavailable, ExecutionFailed, OutcomeUnknown, TooLarge
from enginehost_engines.local_python import LocalPythonEngine
from enginehost_engines.worker.pool import current_pool

from .conftest import Engines, alive, children, eventually


def write_engine(folder: Path, name: str, script: str, *lines: str) -> None:
    """A smss file and its script."""
    (folder / f"{name}.py").write_text(script)
    text = [
        "ENGINE_CLASS=LocalPython",
        f"PYTHON_SCRIPT_PATH={name}.py",
        f"FUNCTION_NAME={name}",
        "FUNCTION_DESCRIPTION=d",
        *lines,
    ]
    (folder / f"{name}.smss").write_text("\n".join(text))


# started ahead, and how many


async def test_workers_that_a_file_asks_for_are_there_before_any_call_and_after_a_death(
    tmp_path: Path,
) -> None:
    before = children()
    write_engine(tmp_path, "f", "import os\ndef f():\n    return os.getpid()\n", "PYTHON_WORKERS=2")
    settings = HostSettings(max_workers=4)
    async with Host(tmp_path, None, settings=settings, watch=False) as host:
        await eventually(lambda: len(children() - before) == 2)
        os.kill(await host.call("f"), signal.SIGKILL)
        await eventually(lambda: len(current_pool().workers) == 2)
        assert len(children() - before) == 2
    assert children() <= before


async def test_workers_ahead_take_nobodys_place(engines: Engines) -> None:
    access = HostAccess(max_workers=2)
    used = engines.make("process_id", access=access)
    pid = await engines.call(used)
    for _ in range(3):
        ahead = engines.make("f", script="def f(): pass", access=access, python_workers=4)
        await ahead.open()
    await eventually(lambda: len(current_pool().workers) == 2)
    assert await engines.call(used) == pid


async def test_however_many_scripts_are_called_in_turn_there_are_never_more_processes_than_allowed(
    engines: Engines,
) -> None:
    before, most = children(), 0
    access = HostAccess(max_workers=2)

    async def count() -> None:
        nonlocal most
        while True:
            most = max(most, len(children() - before))
            await asyncio.sleep(0.001)

    counting = asyncio.ensure_future(count())
    for number in range(12):
        engine = engines.make("f", script=f"def f(): return {number}", access=access)
        assert await engines.call(engine) == number
    counting.cancel()
    assert most == 2


async def test_a_call_that_waits_for_a_place_gets_that_of_the_process_idle_longest(engines: Engines) -> None:
    access = HostAccess(max_workers=2)
    script = "import os\ndef f(): return os.getpid()\n"
    first, second, third = (engines.make("f", script=script + f"#{n}", access=access) for n in range(3))
    oldest, kept = await engines.call(first), await engines.call(second)
    await engines.call(third)
    assert not alive(oldest)
    assert await engines.call(second) == kept


# memory

HOARD = """
import subprocess, sys
kept = []

def hoard(mb):
    kept.append(bytes(1) * (mb << 20))
    return len(kept)

def creep(mb):
    for _ in range(mb * 4):
        kept.append(b"x" * (256 << 10))

def breed(mb):
    code = f"kept = b'x' * ({mb // 4} << 20); import time; time.sleep(60)"
    for child in [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]:
        child.wait()

async def hoard_async(mb):
    return len(b"x" * (mb << 20))

def threads(many):
    import threading
    for _ in range(many):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    return threading.active_count() - 1

def threads_of_a_child(many):
    start = "threading.Thread(target=threading.Event().wait).start()"
    code = f"import threading, os\\nfor _ in range({many}): {start}\\nos._exit(0)"
    return subprocess.run([sys.executable, "-c", code]).returncode

def mapped(mb):
    import mmap
    return len(mmap.mmap(-1, mb << 20, flags=mmap.MAP_PRIVATE))

def text(mb, inside=False):
    return ["z" * (mb << 20)] if inside else "z" * (mb << 20)

async def text_async(mb, inside=False):
    return text(mb, inside)

def texts(mb):
    for _ in range(3):
        yield text(mb)

def arrays(many):
    import numpy
    return float(numpy.ones((many, many)).dot(numpy.ones((many, many))).sum())
"""


async def test_memory_beyond_the_limit_is_an_error_that_says_so_and_costs_only_that_call(
    engines: Engines,
) -> None:
    engine = engines.make("hoard", script=HOARD, python_memory_mb=100)
    pid = (await engines.call(engine, mb=1), *current_pool().workers)[1].pid
    with pytest.raises(Exception, match=r"PYTHON_MEMORY_MB = 100") as caught:
        await engines.call(engine, mb=1000)
    assert type(caught.value).__name__ == "MemoryError"
    assert await engines.call(engine, mb=1) == 2, "the process lived on"
    assert alive(pid)


@pytest.mark.parametrize("name", ["creep", "breed"])
async def test_memory_that_is_used_up_slowly_or_by_a_child_ends_the_call(engines: Engines, name: str) -> None:
    engine = engines.make(name, script=HOARD, python_memory_mb=100)
    before = children()
    with pytest.raises(Exception, match=r"PYTHON_MEMORY_MB = 100"):
        await engines.call(engine, mb=300)
    with pytest.raises(Exception, match=r"PYTHON_MEMORY_MB = 100"):
        await engines.call(engine, mb=300)
    await eventually(lambda: len(children() - before) <= 1)


async def test_a_script_that_needs_more_memory_than_it_may_use_is_not_loaded(engines: Engines) -> None:
    script = "import time\nkept = b'x' * (300 << 20)\ntime.sleep(60)\ndef f(): pass"
    engine = engines.make("f", script=script, python_memory_mb=100)
    with pytest.raises(EngineUnavailable, match=r"PYTHON_MEMORY_MB = 100"):
        await engines.call(engine)


async def test_what_is_reserved_and_not_used_does_not_count_as_memory(engines: Engines) -> None:
    pytest.importorskip("numpy")
    arrays = engines.make("arrays", script=HOARD, python_memory_mb=150)
    assert await engines.call(arrays, many=200) == 200.0**3
    threads = engines.make("threads", script=HOARD, python_memory_mb=100)
    assert await engines.call(threads, many=80) == 80
    assert await engines.call(threads, many=1) == 81, "those of the first call live on"
    child = engines.make("threads_of_a_child", script=HOARD, python_memory_mb=100)
    assert await engines.call(child, many=80) == 0


async def test_an_async_function_beyond_the_limit_fails_too(engines: Engines) -> None:
    engine = engines.make("hoard_async", script=HOARD, python_memory_mb=100)
    with pytest.raises(Exception, match=r"PYTHON_MEMORY_MB = 100"):
        await engines.call(engine, mb=1000)
    assert await engines.call(engine, mb=1) == 1 << 20


@pytest.mark.parametrize("name", ["text", "text_async"])
async def test_what_it_takes_to_send_a_result_is_no_reason_to_die(tmp_path: Path, name: str) -> None:
    parameters = (
        'FUNCTION_PARAMETERS=[{"name":"mb","type":"integer"},{"name":"inside","type":"boolean"}]',
        'FUNCTION_REQUIRED_PARAMETERS=["mb"]',
        "PYTHON_MEMORY_MB=150",
    )
    write_engine(tmp_path, name, HOARD, *parameters)
    long = (tmp_path / f"{name}.smss").read_text().replace("FUNCTION_NAME=", "PYTHON_FUNCTION_NAME=")
    (tmp_path / "short.smss").write_text(f"{long}\nFUNCTION_NAME=short\nMAX_RESULT_BYTES=1000\n")
    async with Host(tmp_path, None, watch=False) as host:
        assert len(await host.call(name, {"mb": 20})) == 20 << 20
        assert len((await host.call(name, {"mb": 20, "inside": True}))[0]) == 20 << 20
        processes = set(current_pool().workers)
        for inside in (False, True):
            with pytest.raises(TooLarge) as caught:
                await host.call("short", {"mb": 30, "inside": inside})
            assert caught.value.detail["size"] == (30 << 20) + (4 if inside else 2)
        assert processes <= set(current_pool().workers)


async def test_large_items_of_a_stream_are_sent_too(engines: Engines) -> None:
    engine = engines.make("texts", script=HOARD, python_memory_mb=200)
    assert [len(item) async for item in engines.stream(engine, mb=15)] == [15 << 20] * 3


async def test_whatever_comes_of_a_limit_of_memory_names_it(engines: Engines) -> None:
    mapped = engines.make("mapped", script=HOARD, python_memory_mb=100)
    with pytest.raises(Exception, match=r"memory \(PYTHON_MEMORY_MB = 100\)"):
        await engines.call(mapped, mb=1000)
    crash = engines.make("crash", python_memory_mb=100)
    with pytest.raises(
        ExecutionFailed, match=r"SIGSEGV, perhaps for want of memory \(PYTHON_MEMORY_MB = 100"
    ):
        await engines.call(crash)


# deadlines

KINDS = {
    "sync": "def f():\n    while True:\n        pass\n",
    "async": "import time\nasync def f():\n    while True:\n        pass\n",
    "stream": "def f():\n    yield 1\n    while True:\n        pass\n",
    "async_stream": "async def f():\n    yield 1\n    while True:\n        pass\n",
    "deaf": "import signal, time\ndef f():\n    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n"
    "    time.sleep(60)\n",
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_runaway_function_is_answered_at_its_deadline_and_its_process_replaced(
    tmp_path: Path, kind: str
) -> None:
    write_engine(tmp_path, "f", KINDS[kind], "TIMEOUT_SECONDS=0.3")
    write_engine(tmp_path, "ready", "def ready():\n    return 1\n")
    before = children()
    async with Host(tmp_path, None, watch=False) as host:
        await host.call("ready")
        best = 60.0
        for _ in range(3):  # the machine may be busy with others
            start = time.monotonic()
            with pytest.raises(CallTimeout):
                await (_all_of(host) if "stream" in kind else host.call("f"))
            best = min(best, time.monotonic() - start)
        assert best < 0.4
        await eventually(lambda: len(children() - before) == 1)


async def _all_of(host: Host) -> None:
    async with aclosing(host.stream("f")) as items:
        async for _ in items:
            pass


# what a stuck process costs others

BLOCKER = """
import asyncio, os, time
async def blk(s, mark=""):
    if mark:
        open(mark, "w").close()
    time.sleep(s)
    return os.getpid()
"""


async def stuck_for(engines: Engines, seconds: float) -> tuple[LocalPythonEngine, int, asyncio.Future[Any]]:
    """An engine, its process, and the call that blocks the process."""
    engine = engines.make("blk", script=BLOCKER)
    pid = await engines.call(engine, s=0)
    mark = engines.folder / "mark"
    stuck = asyncio.ensure_future(engines.call(engine, s=seconds, mark=str(mark)))
    await eventually(mark.exists)
    return engine, pid, stuck


async def test_a_process_that_has_not_heard_a_cancellation_gets_no_calls(engines: Engines) -> None:
    engine, pid, stuck = await stuck_for(engines, 100)
    sent_before = asyncio.ensure_future(engines.call(engine, s=0))  # it never comes to this one
    await asyncio.sleep(0.05)
    stuck.cancel()
    await asyncio.sleep(0)
    others = await asyncio.gather(*(engines.call(engine, s=0) for _ in range(3)))
    assert pid not in others
    assert await sent_before != pid
    await eventually(lambda: not alive(pid))


async def test_a_process_that_heard_its_cancellation_late_is_used_again(engines: Engines) -> None:
    engine, pid, stuck = await stuck_for(engines, 0.3)
    stuck.cancel()
    assert isinstance(await engines.call(engine, s=0), int)
    await eventually(lambda: not any(worker.unheard for worker in current_pool().workers))
    assert alive(pid)
    await asyncio.gather(*(engines.call(engine, s=0) for _ in range(20)))
    await eventually(lambda: len(current_pool().workers) == 1)


async def test_calls_that_run_on_a_process_that_is_killed_do_not_know_their_outcome(engines: Engines) -> None:
    engine = engines.make(
        "f",
        script="""
        import asyncio, time
        async def f(block):
            await asyncio.sleep(0.05)
            if block:
                time.sleep(100)
            await asyncio.sleep(100)
    """,
    )
    other = asyncio.ensure_future(engines.call(engine, block=False))
    stuck = asyncio.ensure_future(engines.call(engine, block=True))
    (worker,) = [worker async for worker in _busy(2)]
    await asyncio.sleep(0.2)
    stuck.cancel()
    with pytest.raises(OutcomeUnknown, match="went on after it was cancelled"):
        await other
    await eventually(lambda: not alive(worker.pid))


async def _busy(calls: int) -> AsyncGenerator[Any, None]:
    await eventually(lambda: any(worker.leases == calls for worker in current_pool().workers))
    for worker in current_pool().workers:
        yield worker


# a fresh process after N calls, or M MB

PID = """
import os, time
kept = []
if os.path.exists("slow"):
    while not os.path.exists("go"):
        time.sleep(0.005)

def pid(mb=0):
    kept.append(b"x" * (mb << 20))
    return os.getpid()

async def pid_async(go=""):
    import asyncio
    while go and not os.path.exists(go):
        await asyncio.sleep(0.005)
    return os.getpid()
"""


@pytest.mark.parametrize("most", [1, 8])
async def test_after_so_many_calls_a_fresh_process_takes_over_and_no_call_waits_for_it(
    engines: Engines, most: int
) -> None:
    engine = engines.make("pid", script=PID, python_max_calls=5, access=HostAccess(max_workers=most))
    first = await engines.call(engine)
    (engines.folder / "slow").touch()
    assert [await engines.call(engine) for _ in range(20)] == [first] * 20, "the fresh one is being loaded"
    (engines.folder / "go").touch()
    await eventually(lambda: not alive(first))
    second = await engines.call(engine)
    assert second != first
    assert len(current_pool().workers) <= 2


async def test_after_so_much_memory_a_fresh_process_takes_over(engines: Engines) -> None:
    engine = engines.make("pid", script=PID, python_recycle_mb=60)
    first = await engines.call(engine, mb=1)
    assert await engines.call(engine, mb=1) == first
    assert await engines.call(engine, mb=100) == first
    await eventually(lambda: not alive(first))
    assert await engines.call(engine, mb=1) != first
    assert len(current_pool().workers) == 1


async def test_a_process_that_is_replaced_ends_no_call_that_runs_on_it(engines: Engines) -> None:
    engine, go = engines.make("pid_async", script=PID, python_max_calls=3), engines.folder / "end"
    long = asyncio.ensure_future(engines.call(engine, go=str(go)))
    first = await engines.call(engine)
    while await engines.call(engine) == first:
        await asyncio.sleep(0.005)
    assert alive(first)
    go.touch()
    assert await long == first
    await eventually(lambda: not alive(first))


async def test_at_the_limit_of_processes_one_is_replaced_all_the_same(engines: Engines) -> None:
    before = children()
    engine = engines.make("pid", script=PID, python_max_calls=2, access=HostAccess(max_workers=1))
    first = await engines.call(engine)
    while await engines.call(engine) == first:
        pass
    await eventually(lambda: len(children() - before) == 1)


async def test_a_fresh_process_that_cannot_be_started_costs_no_call(engines: Engines) -> None:
    script = "import os\nif os.path.exists('bad'): raise OSError('bad')\ndef f(): return os.getpid()"
    engine = engines.make("f", script=script, python_max_calls=1)
    first = await engines.call(engine)
    (engines.folder / "bad").touch()
    assert {await engines.call(engine) for _ in range(20)} == {first}


# every kind of engine whose code runs in workers


async def test_a_script_that_does_not_load_is_told_without_a_call_where_workers_start_ahead(
    tmp_path: Path,
) -> None:
    write_engine(tmp_path, "f", "import nothing_of_the_kind\ndef f(): pass\n", "PYTHON_WORKERS=1")
    async with Host(tmp_path, None, watch=False) as host:
        await eventually(lambda: host.catalog.records["f"].state is EngineState.FAILED)


async def test_reactors_and_classes_have_the_same_limits(tmp_path: Path) -> None:
    (tmp_path / "own_limits.py").write_text(
        "from enginehost.engine import AbstractFunctionEngine\n"
        "from enginehost.reactor import Reactor\n"
        "def use(mb): return len(b'x' * (int(mb) << 20))\n"
        "class Eats(Reactor):\n"
        "    keys_to_get = ('mb',)\n"
        "    def execute(self): return use(self.store['mb'][0].value)\n"
        "class Engine(AbstractFunctionEngine):\n"
        "    def execute(self, parameters): return use(parameters['mb'])\n"
    )
    parameters = 'FUNCTION_PARAMETERS=[{"name":"mb","type":"integer"}]\nPYTHON_MEMORY_MB=100\n'
    (tmp_path / "a.smss").write_text(
        "ENGINE_CLASS=Reactor\nREACTOR_CLASS_NAME=own_limits.Eats\nFUNCTION_NAME=a\n"
        f"FUNCTION_DESCRIPTION=d\n{parameters}"
    )
    (tmp_path / "b.smss").write_text(
        f"ENGINE_CLASS=own_limits:Engine\nFUNCTION_NAME=b\nFUNCTION_DESCRIPTION=d\n{parameters}"
    )
    async with Host(tmp_path, None, watch=False) as host:
        for name in ("a", "b"):
            with pytest.raises(ExecutionFailed, match="PYTHON_MEMORY_MB = 100"):
                await host.call(name, {"mb": 2000})


async def test_limits_of_processes_are_a_warning_where_there_is_none(tmp_path: Path) -> None:
    write_engine(tmp_path, "f", "def f(): pass\n", "PYTHON_ISOLATION=none", "PYTHON_MEMORY_MB=10")
    async with Host(tmp_path, None, settings=HostSettings(in_process_python=True), watch=False) as host:
        assert [one.code for one in host.problems() if "PYTHON_MEMORY_MB" in one.message] == ["no-effect"]
