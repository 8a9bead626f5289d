"""LocalPython: what happens when a worker crashes, hangs or is killed, and when the host dies."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from enginehost.errors import EngineUnavailable, ExecutionFailed, OutcomeUnknown
from enginehost_engines.worker import process
from enginehost_engines.worker.client import WorkerClient
from enginehost_engines.worker.pool import current_pool
from enginehost_engines.worker.spec import WorkerSpec

from .conftest import Engines, alive, children, eventually


@pytest.mark.parametrize(
    ("name", "arguments", "how"),
    [
        ("kill", {"signal": signal.SIGKILL}, "killed by SIGKILL"),
        ("crash", {}, "killed by SIGSEGV"),
        ("leave", {"status": 3}, "exit status 3"),
    ],
)
async def test_a_function_that_ends_its_process_fails_with_the_reason(
    engines: Engines, name: str, arguments: dict[str, Any], how: str
) -> None:
    engine = engines.make(name)
    for _ in range(2):
        with pytest.raises(ExecutionFailed, match=how):
            await engines.call(engine, **arguments)


async def test_a_crash_hurts_no_call_that_waits(engines: Engines) -> None:
    engine = engines.make(
        "leave_or_stay",
        script="""
        import os
        def leave_or_stay(leave):
            if leave:
                os._exit(1)
            return "stayed"
    """,
    )
    calls = (engines.call(engine, leave=number == 3) for number in range(8))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers.pop(3), ExecutionFailed)
    assert answers == ["stayed"] * 7


async def test_calls_that_shared_a_process_that_died_do_not_know_their_outcome(engines: Engines) -> None:
    engine = engines.make(
        "wait_or_leave",
        script="""
        import asyncio, os
        async def wait_or_leave(leave):
            if leave:
                os._exit(1)
            await asyncio.sleep(3600)
    """,
    )
    waiting = [asyncio.ensure_future(engines.call(engine, leave=False)) for _ in range(3)]
    answers = await asyncio.gather(*waiting, engines.call(engine, leave=True), return_exceptions=True)
    assert [type(answer) for answer in answers] == [OutcomeUnknown] * 4


async def test_killing_a_worker_from_outside_ends_its_call_and_the_next_one_has_a_new_worker(
    engines: Engines,
) -> None:
    mark = engines.folder / "mark"
    engine = engines.make("spin")
    call = asyncio.ensure_future(engines.call(engine, mark=str(mark)))
    await eventually(lambda: mark.exists() and mark.read_text() != "")
    pid = int(mark.read_text())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ExecutionFailed, match="SIGKILL"):
        await call
    assert await engines.call("add", a=1, b=2) == 3


async def test_a_function_that_never_ends_is_killed_and_its_caller_waits_for_no_process(
    engines: Engines,
) -> None:
    mark = engines.folder / "mark"
    engine = engines.make("spin")
    call = asyncio.ensure_future(engines.call(engine, mark=str(mark)))
    await eventually(lambda: mark.exists() and mark.read_text() != "")
    call.cancel()
    for _ in range(5):  # turns of the loop: no news of a process is among them
        await asyncio.sleep(0)
    assert call.cancelled()
    await eventually(lambda: not alive(int(mark.read_text())))


async def test_calls_behind_a_killed_one_run_on_the_next_worker(engines: Engines) -> None:
    mark = engines.folder / "mark"
    engine = engines.make(
        "spin_or_add",
        script="""
        import os
        def spin_or_add(mark, a):
            if mark:
                open(mark, "w").write("here")
            while mark:
                pass
            return a
    """,
    )
    stuck = asyncio.ensure_future(engines.call(engine, mark=str(mark), a=0))
    await eventually(lambda: mark.exists())
    behind = [asyncio.ensure_future(engines.call(engine, mark="", a=number)) for number in range(3)]
    await asyncio.sleep(0)
    stuck.cancel()
    assert await asyncio.gather(*behind) == [0, 1, 2]


WAIT_OR_ANSWER = """
    import asyncio, os
    async def wait_or_answer(mark="", block=False):
        if block:
            open(mark, "w").close()
            while True:
                pass
        try:
            if mark:
                await asyncio.sleep(3600)
        finally:
            if mark:
                open(mark, "w").close()
        return os.getpid()
"""


async def test_an_async_call_is_cancelled_and_its_process_lives_on(engines: Engines) -> None:
    mark = engines.folder / "mark"
    engine = engines.make("wait_or_answer", script=WAIT_OR_ANSWER)
    pid = await engines.call(engine)
    call = asyncio.ensure_future(engines.call(engine, mark=str(mark)))
    await asyncio.sleep(0)
    assert await engines.call(engine) == pid
    call.cancel()
    await eventually(mark.exists)
    assert await engines.call(engine) == pid


async def test_a_call_that_is_cancelled_before_it_runs_leaves_nothing_behind(engines: Engines) -> None:
    engine = engines.make("echo_async")
    await engines.call(engine, value=1)
    (worker,) = current_pool().workers
    calls = [asyncio.ensure_future(engines.call(engine, value=number)) for number in range(20)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await eventually(lambda: not worker.busy)


async def test_an_async_function_that_blocks_its_loop_is_killed(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CANCEL_SECONDS", 0.2)
    engine = engines.make("wait_or_answer", script=WAIT_OR_ANSWER)
    pid = await engines.call(engine)
    mark = engines.folder / "mark"
    call = asyncio.ensure_future(engines.call(engine, mark=str(mark), block=True))
    await eventually(mark.exists)
    call.cancel()
    await eventually(lambda: not alive(pid))
    assert await engines.call(engine) != pid


async def test_killing_a_worker_takes_the_processes_it_started(engines: Engines) -> None:
    engine = engines.make("grandchild")
    pid = await engines.call(engine)
    assert alive(pid)
    await engine.close()
    await eventually(lambda: not alive(pid))


async def test_closing_an_engine_ends_a_call_that_runs(engines: Engines) -> None:
    mark = engines.folder / "mark"
    engine = engines.make("spin")
    call = asyncio.ensure_future(engines.call(engine, mark=str(mark)))
    await eventually(lambda: mark.exists() and mark.read_text() != "")
    await engine.close()
    with pytest.raises(ExecutionFailed, match="SIGKILL"):
        await call


async def test_there_are_never_more_processes_than_allowed_and_everyone_is_served(engines: Engines) -> None:
    current_pool().most = 2
    most = 0
    before = children()

    async def use(engine: Any, number: int) -> int:
        nonlocal most
        answer = await engines.call(engine, x=number)
        most = max(most, current_pool().count)
        return answer

    made = [engines.make("f", script=f"def f(x): return x + {number}") for number in range(6)]
    for _ in range(2):
        answers = await asyncio.gather(*(use(engine, 1) for engine in made))
        assert answers == [1 + number for number in range(6)]
    assert most <= 2
    await eventually(lambda: len(children() - before) <= 2)


async def test_an_idle_worker_ends(engines: Engines) -> None:
    before = children()
    engine = engines.make("add", idle_timeout=0.1 / 60)
    assert await engines.call(engine, a=1, b=2) == 3
    await eventually(lambda: children() <= before)
    assert current_pool().count == 0
    assert await engines.call(engine, a=1, b=2) == 3


async def test_no_file_is_left_open(engines: Engines) -> None:
    engine = engines.make("add")
    await engines.call(engine, a=1, b=2)
    await engine.close()
    before = _open_files()
    for _ in range(3):
        engine = engines.make("leave")
        with pytest.raises(ExecutionFailed):
            await engines.call(engine, status=1)
        await engine.close()
    await eventually(lambda: _open_files() <= before)


async def test_a_process_that_escapes_from_its_worker_keeps_no_file_of_the_host_open(
    engines: Engines,
) -> None:
    engine = engines.make(
        "daemon",
        script="""
        import subprocess, sys
        def daemon():
            command = [sys.executable, "-c", "import time; time.sleep(3600)"]
            return subprocess.Popen(command, start_new_session=True, env={}).pid
    """,
    )
    before = _open_files()
    pid = await engines.call(engine)
    try:
        await engine.close()
        await eventually(lambda: _open_files() <= before)
        assert alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": loop}) for loop in (False, True)])
async def test_a_start_that_is_given_up_at_any_moment_leaves_no_file_open(
    engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    await engines.call("add", a=1, b=2)
    await engines.close()
    before = _open_files()
    for turns in range(1, 12):
        engine = engines.make("add")
        call = asyncio.ensure_future(engines.call(engine, a=1, b=2))
        for _ in range(turns):
            await asyncio.sleep(0)
        await engine.close()
        (answer,) = await asyncio.gather(call, return_exceptions=True)
        assert isinstance(answer, EngineUnavailable) or answer == 3
    await eventually(lambda: _open_files() <= before)
    gc.collect()
    assert "never retrieved" not in caplog.text


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_an_interpreter_that_is_missing_is_an_error_of_the_engine(engines: Engines) -> None:
    spec = WorkerSpec.of({"kind": "script"}, "add", interpreter=str(engines.folder / "python"))
    client = WorkerClient(spec, engines.make("add").context.log)
    with pytest.raises(EngineUnavailable, match="could not be started"):
        await client.call("add", {}, "add")
    await client.close()


async def test_a_worker_needs_nothing_but_the_standard_library(engines: Engines) -> None:
    bare = engines.folder / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    order = script_order(engines.folder) | {"init": "import sys; assert 'orjson' not in sys.modules"}
    for concurrent, name in ((False, "echo"), (True, "echo_async")):
        spec = WorkerSpec.of(order, "tools", concurrent=concurrent, interpreter=str(bare))
        client = WorkerClient(spec, engines.make("add").context.log)
        value = {"n": 2**80, "t": (1, "ü"), "b": b"x", "f": 1.5}
        assert await client.call(name, {"value": value}, name) == value
        await client.close()


def script_order(folder: Path) -> dict[str, Any]:
    """What a worker is told that loads the common script."""
    script = folder / "tools.py"
    return {
        "kind": "script",
        "script": str(script),
        "text": script.read_bytes(),
        "folders": [str(folder)],
        "root": str(folder),
        "init": "",
        "texts": {},
        "level": "WARNING",
    }


HOST = """
import asyncio, sys
from pathlib import Path
from enginehost.engine import Call, EngineContext, FunctionSignature
from enginehost_engines.local_python import LocalPythonConfig, LocalPythonEngine

async def main():
    context = EngineContext("e", path=Path(sys.argv[1]) / "e.smss", signature=FunctionSignature("spin"))
    engine = LocalPythonEngine(context, LocalPythonConfig(python_script_path="tools.py"))
    (function,) = engine.functions()
    await function.run({"mark": sys.argv[2]}, Call("spin"))

asyncio.run(main())
"""


@pytest.fixture
def off_linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """What the host and its workers do where there is neither pidfd_open nor prctl; the interpreter."""
    monkeypatch.delattr(os, "pidfd_open")
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['ctypes'] = None\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


@pytest.mark.parametrize("has_waitid", [True, False])
async def test_workers_serve_and_end_without_linux(
    engines: Engines, off_linux: str, has_waitid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_waitid:
        monkeypatch.delattr(os, "waitid")
    spec = WorkerSpec.of(script_order(engines.folder), "tools", interpreter=off_linux)
    client = WorkerClient(spec, engines.make("add").context.log)
    assert await client.call("add", {"a": 1, "b": 2}, "add") == 3
    with pytest.raises(ExecutionFailed, match="exit status 3"):
        await client.call("leave", {"status": 3}, "leave")
    with pytest.raises(ExecutionFailed, match="SIGKILL"):
        await client.call("kill", {"signal": signal.SIGKILL}, "kill")
    pid = await client.call("grandchild", {}, "grandchild")
    await client.close()
    await eventually(lambda: not alive(pid))


async def test_a_busy_worker_dies_with_its_host_without_linux(engines: Engines, off_linux: str) -> None:
    mark = engines.folder / "mark"
    code = "import sys; sys.executable = sys.argv[3]\n" + HOST
    with subprocess.Popen([sys.executable, "-c", code, str(engines.folder), str(mark), off_linux]) as host:
        await eventually(lambda: mark.exists() and mark.read_text() != "")
        host.kill()
        host.wait()
    await eventually(lambda: not alive(int(mark.read_text())))


async def test_a_busy_worker_dies_with_its_host(engines: Engines) -> None:
    mark = engines.folder / "mark"
    command = [sys.executable, "-c", HOST, str(engines.folder), str(mark)]
    with subprocess.Popen(command) as host:
        await eventually(lambda: mark.exists() and mark.read_text() != "")
        host.kill()
        host.wait()
    await eventually(lambda: not alive(int(mark.read_text())))
