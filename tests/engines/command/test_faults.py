"""Programs that misbehave: each hurts its own call, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
import uvloop

from enginehost.engine import Call, EngineState
from enginehost.errors import CallTimeout, EngineUnavailable, ExecutionFailed, TooLarge
from enginehost_engines.command import engine as command_engine
from enginehost_engines.command.flows import Printed

from .conftest import Served, engine_of, eventually, left, python


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pipes() -> set[str]:
    """The pipes that are open in this process."""
    return {one for one in left() if "pipe:" in one}


SLEEPER = [sys.executable, "-I", "-c", "import time; time.sleep(3600)"]
STARTS_CHILD = f"""
    import subprocess, sys, time
    child = subprocess.Popen({SLEEPER!r}, stdin=subprocess.DEVNULL)
    print(child.pid, flush=True)
"""


async def test_the_deadline_ends_the_program_and_what_it_started(served: Served) -> None:
    mark = served.folder / "pid"
    code = STARTS_CHILD + f"    open({str(mark)!r}, 'w').write(str(child.pid)); time.sleep(3600)"
    served.smss("f", python(code))
    await served.host.start()
    for seconds in (0.5, 2, 8, 32):  # until the child is there before the time is over
        with pytest.raises(CallTimeout) as late:
            await served.host.call("f", timeout=seconds)
        assert late.value.detail["timeout"] == seconds
        if mark.exists() and mark.read_text():
            break
    child = int(mark.read_text())
    await eventually(lambda: not alive(child))


async def test_a_caller_who_leaves_ends_the_program(served: Served) -> None:
    mark = served.folder / "pid"
    code = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    served.smss("f", python(code))
    await served.host.start()
    call = asyncio.create_task(served.call("f"))
    await eventually(lambda: mark.exists() and mark.read_text() != "")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await eventually(lambda: not alive(int(mark.read_text())))


@pytest.mark.parametrize("seconds", [0, 0.001, 0.005, 0.02])
async def test_a_caller_may_leave_at_any_moment(served: Served, seconds: float) -> None:
    served.smss("f", ["sleep", "3600"], COMMAND_STDIN="x" * 1000)
    await served.host.start()
    for _ in range(5):
        with pytest.raises((CallTimeout, TimeoutError)):
            async with asyncio.timeout(seconds):
                await served.call("f")


async def test_a_child_that_is_left_behind_is_ended_with_it(served: Served) -> None:
    child = int(await served.run(python(STARTS_CHILD)))
    await eventually(lambda: not alive(child))


async def test_a_daemon_that_holds_the_output_does_not_hold_the_call(served: Served) -> None:
    code = STARTS_CHILD.replace("stdin=", "start_new_session=True, stdin=")
    child = int(await served.run(python(code)))
    try:
        assert alive(child)
    finally:
        os.kill(child, signal.SIGKILL)


async def test_a_daemon_that_floods_the_output_does_not_hold_the_call(served: Served) -> None:
    code = """
        import subprocess, sys
        child = subprocess.Popen(["yes", str(__import__("os").getpid())], start_new_session=True)
        print(child.pid, file=open(sys.argv[1], "w"))
    """
    mark = served.folder / "pid"
    try:
        await served.run(python(code, str(mark)), COMMAND_MAX_OUTPUT_BYTES=str(2**30))
    finally:
        with suppress(ProcessLookupError):  # nobody takes any more what it says: it may have ended
            os.kill(int(mark.read_text()), signal.SIGKILL)


async def test_a_flood_on_the_standard_output_is_cut_off(served: Served) -> None:
    with pytest.raises(TooLarge):
        await served.run(["yes"], COMMAND_MAX_OUTPUT_BYTES="100000")


async def test_a_flood_on_the_standard_error_hurts_nothing(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "enginehost.engine.f")
    code = "import sys\nfor i in range(20000): sys.stderr.write('x' * 500 + chr(10))\nprint('done')"
    assert await served.run(python(code)) == "done"
    own = [len(one.getMessage()) for one in caplog.records if one.name == "enginehost.engine.f"]
    assert sum(own) < 70_000


async def test_a_line_without_end_on_the_standard_error_is_not_kept(served: Served) -> None:
    code = "import sys; sys.stderr.write('x' * 30_000_000); sys.exit(1)"
    with pytest.raises(ExecutionFailed) as caught:
        await served.run(python(code))
    assert len(caught.value.message) < 700


async def test_a_program_that_reads_nothing_is_not_waited_for(served: Served) -> None:
    arguments = {"x": "x" * 5_000_000}
    assert await served.run(["echo", "done"], ["x"], arguments=arguments, COMMAND_STDIN="{x}") == "done"


async def test_a_program_that_reads_a_little_works(served: Served) -> None:
    arguments = {"x": "x" * 5_000_000}
    assert await served.run(["head", "-c", "3"], ["x"], arguments=arguments, COMMAND_STDIN="{x}") == "xxx"


async def test_a_program_that_closes_its_outputs_early_still_says_how_it_ended(served: Served) -> None:
    mark, go = served.folder / "closed", served.folder / "go"
    code = f"""
        import os, time
        print("said", flush=True)
        os.close(1)
        os.close(2)
        open({str(mark)!r}, "w").close()
        while not os.path.exists({str(go)!r}):
            time.sleep(0.01)
        os._exit(7)
    """
    before = pipes()
    call = asyncio.create_task(served.run(python(code)))
    await eventually(mark.exists)
    await eventually(lambda: pipes() <= before)  # the host has seen the end of both
    go.touch()
    with pytest.raises(ExecutionFailed, match="exit status 7"):
        await call


async def test_a_program_that_is_killed_is_told_by_its_signal(served: Served) -> None:
    code = "import os; os.kill(os.getpid(), 9)"
    with pytest.raises(ExecutionFailed) as caught:
        await served.run(python(code))
    assert caught.value.detail == {"type": "CommandFailed", "exit": "killed by SIGKILL"}


async def test_a_stream_that_fails_gives_its_lines_first(served: Served) -> None:
    served.smss("f", ["sh", "-c", "echo a; echo b; echo no >&2; exit 2"], COMMAND_OUTPUT="lines")
    await served.host.start()
    items: list[str] = []
    with pytest.raises(ExecutionFailed, match="exit status 2: no"):  # noqa: PT012
        async for item in served.host.stream("f", {}):
            items.append(item)  # noqa: PERF401 - what came before the failure counts
    assert items == ["a", "b"]


async def test_a_stream_comes_as_it_is_printed_and_ends_when_it_is_left(served: Served) -> None:
    mark = served.folder / "pid"
    code = f"""
        import os, sys, time
        open({str(mark)!r}, "w").write(str(os.getpid()))
        print("first", flush=True)
        time.sleep(3600)
    """
    served.smss("f", python(code), COMMAND_OUTPUT="lines")
    await served.host.start()
    async with aclosing(served.host.stream("f", {})) as lines:
        assert await anext(lines) == "first"
    await eventually(lambda: not alive(int(mark.read_text())))


async def test_a_slow_reader_holds_the_program_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    held_up, most, take = asyncio.Event(), 0, Printed.take

    def watched(printed: Printed, data: bytes) -> None:
        nonlocal most
        take(printed, data)
        most = max(most, printed._held)
        if printed._paused:
            held_up.set()

    monkeypatch.setattr(Printed, "take", watched)
    served.smss("f", python("for _ in range(20_000): print('x' * 999)"), COMMAND_OUTPUT="lines")
    await served.host.start()
    async with asyncio.timeout(60), aclosing(served.host.stream("f", {})) as lines:
        await anext(lines)
        await held_up.wait()
        assert len([line async for line in lines]) == 19_999
    assert most < 1_000_000  # of 20,000,000 bytes


async def test_a_program_that_vanishes_fails_the_engine_until_it_is_back(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_engine, "RETRY_SECONDS", (0.05, 0.1))
    tool = served.folder / "tool.sh"
    tool.write_text("#!/bin/sh\necho here\n")
    tool.chmod(0o755)
    assert await served.run(["./tool.sh"]) == "here"
    tool.rename(served.folder / "away")
    with pytest.raises(EngineUnavailable, match="there is no such program"):
        await served.call("f")
    (record,) = served.host.catalog.records.values()
    await eventually(lambda: record.state is EngineState.FAILED)
    (served.folder / "away").rename(tool)
    await eventually(lambda: record.state is EngineState.READY)
    assert await served.call("f") == "here"


async def test_a_place_on_the_path_that_cannot_be_searched_is_passed_over(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"/{'x' * 300}:{os.environ['PATH']}")  # as for a folder of another user
    assert await served.run(["echo", "here"]) == "here"


async def test_what_is_no_program_is_told(served: Served) -> None:
    tool = served.folder / "tool"
    tool.write_bytes(b"\x01\x02\x03")
    tool.chmod(0o755)
    with pytest.raises(EngineUnavailable, match="no program for this machine"):
        await served.run(["./tool"])


async def test_no_more_programs_run_at_once_than_may(tmp_path: Path) -> None:
    marks, go = tmp_path / "marks", tmp_path / "go"
    marks.mkdir()
    code = f"""
        import os, pathlib, time
        marks, go = pathlib.Path({str(marks)!r}), pathlib.Path({str(go)!r})
        mine = marks / str(os.getpid())
        mine.touch()
        print(len(list(marks.iterdir())))
        while not go.exists():
            time.sleep(0.01)
        mine.unlink()
    """
    engine = engine_of(tmp_path, most=2, command=python(code))
    await engine.open()
    (function,) = engine.functions()
    calls = [asyncio.create_task(function.run({}, Call("f"))) for _ in range(8)]
    await eventually(lambda: len(list(marks.iterdir())) >= 2)  # none ends before `go` is there
    assert len(engine._running) == 2
    go.touch()
    assert max(map(int, await asyncio.gather(*calls))) == 2
    await engine.close()


async def test_a_host_runs_as_many_programs_at_once_as_its_setting_says(served: Served) -> None:
    assert served.host.settings.max_programs == 64
    mark, wanted = served.folder / "mark", 12
    served.smss(
        "f",
        python(f"""
        import pathlib, time, os
        place = pathlib.Path({str(mark)!r})
        place.mkdir(exist_ok=True)
        (place / str(os.getpid())).touch()
        while len(list(place.iterdir())) < {wanted}:
            time.sleep(0.01)
    """),
    )
    await served.host.start()
    async with asyncio.timeout(60):  # none ends before all run
        await asyncio.gather(*(served.call("f") for _ in range(wanted)))


async def test_closing_ends_what_still_runs(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, command=SLEEPER)
    await engine.open()
    (function,) = engine.functions()
    call = asyncio.create_task(function.run({}, Call("f")))
    await eventually(lambda: bool(engine._running))
    await engine.close()
    with pytest.raises(ExecutionFailed, match="SIGKILL"):
        await call


def test_the_loop_of_the_server_runs_programs_too(tmp_path: Path) -> None:
    async def calls() -> list[object]:
        engine = engine_of(tmp_path, ["x"], command=["cat"], command_stdin="{x}")
        lines = engine_of(tmp_path, command=["sh", "-c", "echo a; echo b; exit 3"], command_output="lines")
        found: list[object] = []
        for one in (engine, lines):
            await one.open()
        (function,), (stream,) = engine.functions(), lines.functions()
        for text in ("", "short", "x" * 1_000_000):
            found.append(await function.run({"x": text}, Call("f")) == text)  # noqa: PERF401
        with pytest.raises(ExecutionFailed):
            found += [item async for item in stream.run({}, Call("f"))]
        sleeper = engine_of(tmp_path, command=SLEEPER)
        await sleeper.open()
        (sleep,) = sleeper.functions()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sleep.run({}, Call("f")), 0.1)
        for one in (engine, lines, sleeper):
            await one.close()
        return found

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(calls()) == [True, True, True]
