"""Python engines in a host: a broken edit takes nothing down, and what is mended serves again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host, HostSettings, retries
from enginehost.engine import EngineState
from enginehost.errors import EngineUnavailable, ExecutionFailed
from enginehost_engines.worker import client, group
from enginehost_engines.worker.pool import current_pool

from .conftest import children

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file as editors do: whole, by renaming."""

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        beside = path.with_name(f"{path.name}.temp")
        beside.write_text(text)
        beside.rename(path)

    return write


@pytest.fixture
async def host(tmp_path: Path, write: Write) -> AsyncGenerator[Host, None]:
    """Serves ``f`` of ``f.py``, which imports ``lib.part``; afterwards no process is left."""
    write("lib/part.py", "value = 1")
    write("f.py", "from lib.part import value\ndef f(): return value")
    write("f.smss", smss("f"))
    before = children()
    async with Host(tmp_path, None, settings=HostSettings()) as host:
        yield host
    assert children() <= before


def smss(name: str, script: str = "f.py", **keys: str) -> str:
    lines = ["ENGINE_CLASS = LocalPython", f"PYTHON_SCRIPT_PATH = {script}"]
    lines += [f"FUNCTION_NAME = {name}", "FUNCTION_DESCRIPTION = d"]
    return "\n".join([*lines, *(f"{key} = {value}" for key, value in keys.items())])


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


async def is_in(host: Host, name: str, state: EngineState) -> None:
    async def there() -> bool:
        record = host.catalog.records.get(name)
        return record is not None and record.state is state

    await eventually(there)


async def answers(host: Host, name: str, wanted: Any) -> None:
    async def there() -> bool:
        try:
            return await host.call(name) == wanted
        except EngineUnavailable:
            return False

    await eventually(there)


BROKEN = [
    "import nosuchmodule\ndef f(): return 2",
    "raise RuntimeError('no')\ndef f(): return 2",
    "raise SystemExit(3)\ndef f(): return 2",
    "undefined\ndef f(): return 2",
    "import os; os._exit(1)\ndef f(): return 2",
    "def f(): return 2\ndel f",
]


@pytest.mark.parametrize("called", [True, False])
async def test_a_script_that_does_not_load_leaves_the_last_good_version_serving(
    host: Host, write: Write, called: bool
) -> None:
    if called:
        assert await host.call("f") == 1
    for broken in BROKEN[: None if called else 1]:
        write("f.py", broken)
        await is_in(host, "f", EngineState.STALE)
        assert host.catalog.records["f"].reason
        assert await host.call("f") == 1
        write("f.py", "from lib.part import value\ndef f(): return value")
        await is_in(host, "f", EngineState.READY)


async def test_a_stale_version_outlives_its_process(host: Host, write: Write) -> None:
    write("f.py", "import os\ndef f(): return os.getpid()")
    await eventually(lambda: differs(host, 1))
    write("f.py", "raise RuntimeError('no')")
    await is_in(host, "f", EngineState.STALE)
    pid = await host.call("f")
    os.kill(pid, 9)
    await eventually(lambda: differs(host, pid))


async def differs(host: Host, pid: int) -> bool:
    try:
        return await host.call("f") != pid
    except ExecutionFailed:  # it ended on the process that was killed
        return False


async def test_a_module_beside_the_script_is_followed(host: Host, write: Write) -> None:
    assert await host.call("f") == 1
    write("lib/part.py", "value = 22")
    await answers(host, "f", 22)
    write("lib/part.py", "1 / 0")
    await is_in(host, "f", EngineState.STALE)
    assert "ZeroDivisionError" in host.catalog.records["f"].reason
    assert await host.call("f") == 22
    write("lib/part.py", "value = 333")
    await answers(host, "f", 333)
    assert host.catalog.records["f"].state is EngineState.READY


async def test_a_module_that_is_imported_late_is_followed_too(host: Host, write: Write) -> None:
    write("late.py", "value = 1")
    write("g.py", "def g():\n    import late\n    return late.value")
    write("g.smss", smss("g", "g.py"))
    await is_in(host, "g", EngineState.READY)
    assert await host.call("g") == 1
    await eventually(lambda: watches(host, "late.py"))
    write("late.py", "value = 22")
    await answers(host, "g", 22)


async def test_a_call_that_runs_ends_on_the_code_it_began_with(host: Host, write: Write) -> None:
    slow = "import os, time, lib.part\ndef g():\n    open('here', 'w').close()\n"
    slow += "    while not os.path.exists('go'): time.sleep(0.01)\n    return lib.part.value"
    write("g.py", slow)
    write("g.smss", smss("g", "g.py"))
    await is_in(host, "g", EngineState.READY)
    running = asyncio.ensure_future(host.call("g"))
    await eventually(lambda: exists(host, "here"))
    await eventually(lambda: watches(host, "lib/part.py"))
    write("lib/part.py", "value = 22")
    write("go", "")
    await answers(host, "g", 22)
    assert await running == 1


async def exists(host: Host, name: str) -> bool:
    return host.folder is not None and (host.folder / name).exists()


async def watches(host: Host, name: str) -> bool:
    engine: Any = host.catalog.records["g"].engine
    return host.folder is not None and host.folder / name in engine.watched()


async def test_the_first_call_of_code_that_does_not_load_shows_the_engine_as_failed(
    host: Host, write: Write
) -> None:
    write("g.py", "import not_there_yet\ndef g(): return 1")
    write("g.smss", smss("g", "g.py"))
    await is_in(host, "g", EngineState.READY)
    with pytest.raises(EngineUnavailable, match=r"g: .*not_there_yet"):
        await host.call("g")
    await is_in(host, "g", EngineState.FAILED)
    assert host.catalog.get("g") is None
    with pytest.raises(EngineUnavailable) as caught:
        await host.call("g")
    assert "not_there_yet" in caught.value.detail["reason"]
    assert [found.code for found in host.problems()] == ["cannot-serve"]
    write("not_there_yet.py", "")
    await answers(host, "g", 1)
    assert host.problems() == []


async def test_code_that_loads_at_another_time_serves_without_an_edit(
    host: Host, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "RETRY_ALONE_SECONDS", (0.1, 0.2))
    monkeypatch.setattr(retries, "FIRST_SECONDS", 0.1)
    write("g.py", f"open('{tmp_path}/db').close()\ndef g(): return 1")
    write("g.smss", smss("g", "g.py"))
    await is_in(host, "g", EngineState.READY)
    with pytest.raises(EngineUnavailable):
        await host.call("g")
    await is_in(host, "g", EngineState.FAILED)
    write("db", "")
    await is_in(host, "g", EngineState.READY)
    assert await host.call("g") == 1
    write("g.py", f"open('{tmp_path}/other').close()\ndef g(): return 22")
    await is_in(host, "g", EngineState.STALE)
    assert await host.call("g") == 1
    write("other", "")
    await answers(host, "g", 22)


async def test_a_failed_engine_that_is_edited_shows_the_new_reason_and_recovers(
    host: Host, write: Write
) -> None:
    write("g.py", "raise RuntimeError('one')\ndef g(): return 1")
    write("g.smss", smss("g", "g.py"))
    await is_in(host, "g", EngineState.READY)
    with pytest.raises(EngineUnavailable):
        await host.call("g")
    write("g.py", "raise RuntimeError('two')\ndef g(): return 1")

    async def says_two() -> bool:
        return "two" in host.catalog.records["g"].reason

    await eventually(says_two)
    assert host.catalog.records["g"].state is EngineState.FAILED
    write("g.py", "def g(): return 1")
    await answers(host, "g", 1)


async def test_a_reactor_that_does_not_load_leaves_the_last_good_version_serving(
    host: Host, write: Write
) -> None:
    good = "from enginehost.reactor import Reactor\nclass R(Reactor):\n    def execute(self): return {}"
    write("r.py", good.format(1))
    write(
        "r.smss",
        "ENGINE_CLASS = Reactor\nREACTOR_CLASS_NAME = r.R\nFUNCTION_NAME = r\nFUNCTION_DESCRIPTION = d",
    )
    await is_in(host, "r", EngineState.READY)
    assert await host.call("r") == 1
    write("r.py", "undefined\n" + good.format(2))
    await is_in(host, "r", EngineState.STALE)
    assert await host.call("r") == 1
    write("r.py", good.format(33))
    await answers(host, "r", 33)


async def test_where_too_much_changes_at_once_the_rest_serves_untried(
    host: Host, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CHECK_TURN_SECONDS", 0.05)
    monkeypatch.setattr(current_pool(), "checks", asyncio.Semaphore(0))
    before = children()
    write("f.py", "def f(): return 22")
    await eventually(lambda: tells(host, 22))
    assert children() == before


async def tells(host: Host, number: int) -> bool:
    engine: Any = host.catalog.records["f"].engine
    return str(number).encode() in engine._text


async def test_loading_a_folder_starts_no_process(host: Host, tmp_path: Path) -> None:
    before = children()
    async with Host(tmp_path, None, settings=HostSettings()) as another:
        assert another.catalog.get("f") is not None
        assert children() == before
