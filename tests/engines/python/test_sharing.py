"""LocalPython: engines that load the same script share processes, and never wait for each other."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import pytest

from enginehost.engine import Call, HostAccess
from enginehost.errors import CallTimeout, ExecutionFailed, OutcomeUnknown
from enginehost_engines.worker import group
from enginehost_engines.worker.pool import current_pool

from .conftest import Engines, children, eventually, function_of


async def test_engines_of_one_script_share_a_process_as_long_as_nobody_waits(engines: Engines) -> None:
    before = children()
    made = [engines.make("process_id") for _ in range(5)]
    assert len({await engines.call(engine) for engine in made}) == 1
    assert len(children() - before) == 1


async def test_a_call_does_not_wait_for_another_engines_call(engines: Engines) -> None:
    mark = engines.folder / "mark"
    spins, adds = engines.make("spin"), engines.make("add")
    stuck = asyncio.ensure_future(engines.call(spins, mark=str(mark)))
    await eventually(lambda: mark.exists() and mark.read_text() != "")
    async with asyncio.timeout(10):
        assert await engines.call(adds, a=1, b=2) == 3
    assert not stuck.done()
    stuck.cancel()


async def test_short_calls_of_many_engines_start_no_process_each(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "GROW_SECONDS", 60.0)
    made = [engines.make("add") for _ in range(6)]
    await engines.call(made[0], a=1, b=2)
    before = children()
    await asyncio.gather(*(engines.call(engine, a=1, b=2) for engine in made))
    assert children() == before


async def test_calls_of_one_engine_run_as_many_at_a_time_as_it_may_have_workers(engines: Engines) -> None:
    script = """
        import os, time
        def here(folder):
            name, met = os.path.join(folder, f"here.{os.getpid()}"), os.path.join(folder, "met")
            open(name, "w").close()
            many = 0
            while many < 2 and not os.path.exists(met):  # the first waits for another to come
                many = sum(name.startswith("here.") for name in os.listdir(folder))
                time.sleep(0.001)
            open(met, "w").close()
            many = max(many, sum(name.startswith("here.") for name in os.listdir(folder)))
            os.remove(name)
            return many
    """
    engine = engines.make("here", script=script, python_workers=2)
    answers = await asyncio.gather(*(engines.call(engine, folder=str(engines.folder)) for _ in range(8)))
    assert max(answers) == 2


async def test_async_engines_never_share_a_process(engines: Engines) -> None:
    made = [engines.make("process_id_async") for _ in range(3)]
    assert len({await engines.call(engine) for engine in made}) == 3


@pytest.mark.parametrize("name", ["process_id", "process_id_async"])
async def test_a_crash_hurts_only_its_own_engine(engines: Engines, name: str) -> None:
    killed = engines.make(name)
    others = [engines.make("wait"), engines.make("echo_async")]
    waiting = asyncio.ensure_future(engines.call(others[0]))
    assert await engines.call(others[1], value=1) == 1
    os.kill(await engines.call(killed), signal.SIGKILL)
    assert await engines.call(others[1], value=2) == 2
    assert not waiting.done()
    waiting.cancel()


async def test_at_the_limit_an_idle_process_of_another_script_makes_room(engines: Engines) -> None:
    access = HostAccess(max_workers=1)
    before = children()
    for number in range(3):
        engine = engines.make("f", script=f"def f(): return {number}", access=access)
        assert await engines.call(engine) == number
    await eventually(lambda: len(children() - before) == 1)


async def within(seconds: float, engine: Any, **arguments: Any) -> Any:
    """A call under a deadline, as the host makes it."""
    from enginehost.drive import as_coroutine, drive

    coroutine = as_coroutine(function_of(engine).run(arguments, Call("f")))
    pending = coroutine.send(None)
    return await drive(coroutine, pending, "f", time.monotonic() + seconds, seconds, set())


async def test_a_deadline_that_passes_at_the_limit_says_what_the_call_waited_for(engines: Engines) -> None:
    access, mark = HostAccess(max_workers=1), engines.folder / "mark"
    spins = engines.make("spin", access=access)
    stuck = asyncio.ensure_future(engines.call(spins, mark=str(mark)))
    await eventually(lambda: mark.exists() and mark.read_text() != "")
    waits = engines.make("f", script="def f(): pass", access=access)
    with pytest.raises(CallTimeout, match=r"waited for a free worker process \(max_workers = 1\)"):
        await within(0.05, waits)
    with pytest.raises(CallTimeout, match=r"waited for the engine's other calls \(PYTHON_WORKERS = 1\)"):
        await within(0.05, spins, mark="")
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    assert await engines.call(waits) is None
    assert await engines.call("add", a=1, b=2) == 3


async def test_calls_that_are_cancelled_in_line_leave_the_line_whole(engines: Engines) -> None:
    engine = engines.make("echo")
    calls = [asyncio.ensure_future(engines.call(engine, value=number)) for number in range(9)]
    await asyncio.sleep(0)
    for call in calls[1::2]:
        call.cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert answers[::2] == [0, 2, 4, 6, 8]
    assert {type(answer) for answer in answers[1::2]} == {asyncio.CancelledError}
    assert await engines.call(engine, value=1) == 1


async def test_a_call_that_comes_while_the_start_of_its_process_is_given_up_is_served(
    engines: Engines,
) -> None:
    access, go = HostAccess(max_workers=1), engines.folder / "go"
    slow = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.001)\ndef f():\n    return 1"
    first = engines.make("f", script=slow.replace("'go'", repr(str(go))), access=access)
    other = engines.make("f", script="def f(): return 2", access=access)
    left = asyncio.ensure_future(engines.call(first))
    await eventually(lambda: current_pool().count == 1)
    left.cancel()
    makes_room = asyncio.ensure_future(engines.call(other))
    await asyncio.sleep(0)
    comes_then = asyncio.ensure_future(engines.call(first))
    go.touch()
    async with asyncio.timeout(20):
        assert await asyncio.gather(makes_room, comes_then) == [2, 1]


EXIT_TOGETHER = """
    import asyncio, os
    running = 0
    async def f():
        global running
        running += 1
        while running < 2:
            await asyncio.sleep(0.001)
        os._exit(1)
"""


async def test_a_crash_message_names_the_function(engines: Engines) -> None:
    engine = engines.make("crash")
    with pytest.raises(ExecutionFailed, match=r"^take: its worker process ended: killed by SIGSEGV$"):
        await function_of(engine).run({}, Call("take"))
    engine = engines.make("f", script=EXIT_TOGETHER)
    calls = (function_of(engine).run({}, Call("take")) for _ in range(2))
    for answer in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(answer, OutcomeUnknown)
        assert answer.message.startswith("take: ")


async def test_a_result_that_cannot_cross_names_the_function(engines: Engines) -> None:
    engine = engines.make("f", script="def f(): return '\\ud800'")
    with pytest.raises(Exception, match=r"^take: "):
        await function_of(engine).run({}, Call("take"))
    with pytest.raises(Exception, match=r"^take at /value: "):
        await function_of(engines.make("echo")).run({"value": "\ud800"}, Call("take"))


async def test_a_process_that_was_one_too_many_goes_when_its_work_is_done(engines: Engines) -> None:
    access, mark = HostAccess(max_workers=1), engines.folder / "mark"
    stuck = asyncio.ensure_future(engines.call(engines.make("spin", access=access), mark=str(mark)))
    await eventually(lambda: mark.exists() and mark.read_text() != "")
    new = engines.make("f", script="def f(): pass", access=access, context={"reloading": True})
    await new.open()
    await eventually(lambda: current_pool().count == 1)
    stuck.cancel()
