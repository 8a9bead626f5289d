"""Whatever a server does, only its own engine is hurt, and it comes back by itself."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host
from enginehost.errors import (
    CallTimeout,
    EngineUnavailable,
    ExecutionFailed,
    OutcomeUnknown,
    ResultInvalid,
    TooLarge,
    UnknownFunction,
)
from enginehost.testing.leftovers import leftovers, snapshot

from .conftest import (
    PATIENCE,
    host_on,
    names,
    raw,
    real,
    reason,
    runs,
    speak_older,
    states,
    states_reason,
    until,
)

SOON = "MCP_RECONNECT_SECONDS = 0.2"


@pytest.mark.parametrize("code", [3, -1])
async def test_a_server_that_dies_is_withdrawn_and_comes_back(code: int, tmp_path: Path) -> None:
    quiet = real("MCP_PREFIX = b_")
    async with host_on(tmp_path, a=real("MCP_RECONNECT_SECONDS = 3600"), b=quiet) as host:
        waiting = asyncio.create_task(host.call("double", {"n": 1_000_000}))
        await asyncio.sleep(0)
        with pytest.raises(OutcomeUnknown):
            await host.call("die", {"code": code})
        with pytest.raises(OutcomeUnknown):
            await waiting
        await until(lambda: states(host)["a"] == "failed")
        assert ("exit code 3" if code == 3 else "SIGKILL") in states_reason(host, "a")
        assert "these are my last words" in states_reason(host, "a")
        for name in ("double", "move"):
            with pytest.raises(EngineUnavailable):
                await host.call(name, {"n": 1})
        with pytest.raises(UnknownFunction):
            await host.call("nobody_has_this")
        assert await host.call("b_double", {"n": 1}) == "2.0"
        await until(lambda: states(host)["a"] == "ready")
        assert await host.call("double", {"n": 1}) == "2.0"


async def test_a_server_that_stays_away_is_tried_again_and_again(tmp_path: Path) -> None:
    place = tmp_path / "died"
    async with host_on(tmp_path, a=raw("once", place=place)) as host:
        with pytest.raises(OutcomeUnknown):
            await host.call("go")
        await until(lambda: "exit code 4" in reason(host))
        with pytest.raises(EngineUnavailable, match="exit code 4"):
            await host.call("go")
        place.unlink()
        await until(lambda: states(host) == {"a": "ready"})
        assert names(host) == ["go"]


@pytest.mark.parametrize("way", ["http", "older-http", "sse"])
async def test_a_lost_address_is_unavailable_until_it_is_back(
    way: str, http_server: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "older-http":
        speak_older(monkeypatch)
    server = http_server(way.removeprefix("older-"))
    async with host_on(tmp_path, a=server.file()) as host:
        waiting = asyncio.create_task(host.call("double", {"n": 1_000_000}))
        await asyncio.sleep(0)
        await host.call("double", {"n": 1})  # the first has been sent before
        server.kill()
        with pytest.raises(OutcomeUnknown):
            await waiting
        await until(lambda: states(host) == {"a": "failed"})
        with pytest.raises(EngineUnavailable):
            await host.call("double", {"n": 1})
        server.start()
        await until(lambda: states(host) == {"a": "ready"})
        assert await host.call("double", {"n": 1}) == "2.0"


async def test_a_cancelled_call_ends_at_once_and_the_server_hears_of_it(
    http_server: Callable[..., Any], tmp_path: Path
) -> None:
    http = http_server("http").file("MCP_PREFIX = h_")
    async with host_on(tmp_path, a=real(), b=http) as host:
        for prefix in ("", "h_"):
            task = asyncio.create_task(host.call(f"{prefix}double", {"n": 1_000_000}))
            await host.call(f"{prefix}double", {"n": 1})  # the first has been sent before
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await hears_of_the_cancellation(host, prefix)


async def test_a_call_has_its_deadline_and_the_server_hears_of_it(tmp_path: Path) -> None:
    async with host_on(tmp_path, a=real()) as host:
        with pytest.raises(CallTimeout):
            await host.call("double", {"n": 1_000_000}, timeout=0.3)
        await hears_of_the_cancellation(host)


async def hears_of_the_cancellation(host: Host, prefix: str = "") -> None:
    async with asyncio.timeout(PATIENCE):
        while (await host.call(f"{prefix}heard"))["result"] != ["cancelled"]:
            await asyncio.sleep(0.02)


async def test_a_server_that_answers_nothing_any_more_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import enginehost_engines.mcp.session as session

    monkeypatch.setattr(session, "LIST_SECONDS", 60.0)
    async with host_on(tmp_path, a=real(SOON)) as host:
        before = await host.call("pid")
        monkeypatch.setattr(session, "LIST_SECONDS", 0.5)
        with pytest.raises(CallTimeout):
            await host.call("freeze", timeout=0.3)
        await until(lambda: states(host) == {"a": "failed"})
        assert "does not answer" in reason(host)
        monkeypatch.setattr(session, "LIST_SECONDS", 60.0)
        await until(lambda: states(host) == {"a": "ready"})
        assert await host.call("pid") != before
        assert not runs(before["result"])


async def test_a_server_that_reads_nothing_holds_up_no_cancelled_call(tmp_path: Path) -> None:
    async with host_on(tmp_path, a=raw("deaf"), b=real()) as host:
        stuck = [asyncio.create_task(host.call("go", {"t": "x" * 200_000}, timeout=0.3)) for _ in range(5)]
        assert await host.call("double", {"n": 1}) == "2.0"
        assert all(
            isinstance(one, CallTimeout) for one in await asyncio.gather(*stuck, return_exceptions=True)
        )


async def test_what_is_no_message_is_told_and_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with host_on(tmp_path, a=raw("garbage")) as host:
        assert await host.call("go") == "go"
    told = [line for line in caplog.messages if "no message" in line]
    assert 0 < len(told) <= 20


async def test_a_server_that_writes_nothing_but_garbage_is_replaced(tmp_path: Path) -> None:
    async with host_on(tmp_path, a=raw("only-garbage"), b=real()) as host:
        with pytest.raises(OutcomeUnknown):
            await host.call("go")
        assert await host.call("double", {"n": 1}) == "2.0"
        await until(lambda: "go" in names(host))


@pytest.mark.parametrize("bad", ["large-first", "large-last"])
async def test_an_answer_that_is_too_large_ends_its_own_call_only(bad: str, tmp_path: Path) -> None:
    async with host_on(tmp_path, a=raw(bad, "MAX_MESSAGE_BYTES = 100000")) as host:
        with pytest.raises(TooLarge):
            await host.call("go")
        assert states(host) == {"a": "ready"}


@pytest.mark.parametrize("way", ["http", "json"])
async def test_an_answer_over_http_that_is_too_large_ends_its_own_call_only(
    way: str, http_server: Callable[..., Any], tmp_path: Path
) -> None:
    async with host_on(tmp_path, a=http_server(way).file("MAX_MESSAGE_BYTES = 100000")) as host:
        with pytest.raises((TooLarge, OutcomeUnknown)):
            await host.call("large", {"size": 200_000})
        assert await host.call("large", {"size": 10}) == "x" * 10
        assert states(host) == {"a": "ready"}


@pytest.mark.parametrize("bad", ["surrogate", "wrong-shape", "no-base64"])
async def test_an_answer_that_is_none_is_an_invalid_result(bad: str, tmp_path: Path) -> None:
    async with host_on(tmp_path, a=raw(bad)) as host:
        with pytest.raises(ResultInvalid):
            await host.call("go")
        assert states(host) == {"a": "ready"}


async def test_the_text_of_an_error_is_bounded_and_on_one_line(tmp_path: Path) -> None:
    async with host_on(tmp_path, a=raw("error")) as host:
        with pytest.raises(ExecutionFailed) as raised:
            await host.call("go")
        assert len(raised.value.message) < 2100
        assert "\n" not in raised.value.message


async def test_secrets_of_the_file_are_in_no_error(tmp_path: Path) -> None:
    async with host_on(tmp_path, a=real('MCP_ENV = {"API_TOKEN": "secret-of-the-file"}')) as host:
        with pytest.raises(ExecutionFailed, match="too small") as raised:
            await host.call("double", {"n": -1})
        assert "secret-of-the-file" not in raised.value.message


async def test_error_output_goes_to_the_log_within_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "enginehost.engine.a"):
        async with host_on(tmp_path, a=raw("flood")) as host:
            assert await host.call("go") == "go"
            await until(lambda: any(line.startswith("line 100 ") for line in caplog.messages))
    lines = [line for line in caplog.messages if line.startswith("line ")]
    assert len(lines) <= 200
    assert all(len(line) <= 2000 for line in lines)


async def test_hostile_tools_are_left_out_and_the_others_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with host_on(tmp_path, a=raw("hostile"), b=real("MCP_PREFIX = b_")) as host:
        kept = {"good", "talks", "old", "default", "result", "evil"}
        assert {name for name in names(host) if not name.startswith("b_")} == kept
        assert len(host.entry("talks").signature.description) < 20_000
        assert host.tools("openai")
        assert await host.call("good", {"any": "thing"}) == {"t": "a" * 60 + "!"}
        assert await host.call("default")
        with pytest.raises(ResultInvalid):
            await host.call("evil")  # decided by an engine that cannot be kept busy for ever
    assert "another one of this name" in caplog.text
    assert "leads out of it" in caplog.text


@pytest.mark.parametrize(
    ("bad", "says"), [("exits", "exit code 3: no module named tea"), ("malformed", "tools")]
)
async def test_a_server_that_does_not_start_is_a_failed_engine_with_the_reason(
    bad: str, says: str, tmp_path: Path
) -> None:
    async with host_on(tmp_path, a=raw(bad), b=real()) as host:
        assert states(host) == {"a": "failed", "b": "ready"}
        assert says in states_reason(host, "a")


async def test_a_program_that_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    async with host_on(tmp_path, a='ENGINE_CLASS = MCP\nMCP_COMMAND = ["no-such-program"]') as host:
        assert states(host) == {"a": "failed"}
        assert "no-such-program" in reason(host)


async def test_a_server_that_is_never_ready_holds_nobody_up_and_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "pid"
    files = {"a": raw("never-ready", place=place), "b": raw("pages")}
    async with host_on(tmp_path, settings={"open_timeout": 3}, **files) as host:
        assert states(host) == {"a": "failed", "b": "ready"}
        await until(lambda: not runs(int(place.read_text())))
    assert "left behind" not in caplog.text


async def test_nothing_is_left_when_an_engine_closes(tmp_path: Path) -> None:
    place = tmp_path / "pids"
    async with host_on(tmp_path, w=real()):
        pass  # what is made once for all: threads of pools, imports
    before = snapshot()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    async with host_on(tmp_path, a=raw("stubborn", place=place), b=real("MCP_PREFIX = b_")) as host:
        child = (await host.call("b_child"))["result"]
        pids = [int(word) for word in place.read_text().split()]
        assert all(map(runs, [child, *pids]))
    assert not [pid for pid in [child, *pids] if runs(pid)]
    assert await leftovers(before, PATIENCE) == set()
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


async def test_what_a_dead_server_started_is_ended_too(tmp_path: Path) -> None:
    async with host_on(tmp_path, a=real(SOON)) as host:
        child = (await host.call("child"))["result"]
        with pytest.raises(OutcomeUnknown):
            await host.call("die", {"code": 1})
        await until(lambda: not runs(child))


async def test_a_deleted_file_ends_its_server(tmp_path: Path) -> None:
    async with host_on(tmp_path, watch=True, a=real()) as host:
        pid = (await host.call("pid"))["result"]
        (tmp_path / "smss" / "a.smss").unlink()
        await until(lambda: not runs(pid))
        assert names(host) == []


@pytest.mark.skipif(sys.platform != "linux", reason="does not apply: the pids are read from /proc")
async def test_servers_end_with_a_host_that_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "pids"
    (tmp_path / "smss").mkdir()
    (tmp_path / "smss" / "a.smss").write_text(raw("stubborn", place=place))
    program = """
        import asyncio, sys
        from pathlib import Path
        from enginehost.testing import running_host

        async def main():
            async with running_host(Path(sys.argv[1])) as host:
                while "go" not in [entry.name for entry in host.functions()]:
                    await asyncio.sleep(0.01)
                print("ready", flush=True)
                await asyncio.sleep(300)

        asyncio.run(main())
    """
    host = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "smss")],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert host.stdout is not None
    assert await asyncio.to_thread(host.stdout.readline) == "ready\n"
    pids = [int(word) for word in place.read_text().split()]
    assert all(map(runs, pids))
    host.send_signal(signal.SIGKILL)
    host.wait()
    host.stdout.close()
    await until(lambda: not any(map(runs, pids)))


async def test_a_session_that_the_server_forgot_is_begun_anew(
    http_server: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speak_older(monkeypatch)
    server = http_server("json")
    async with host_on(tmp_path, a=server.file()) as host:
        assert await host.call("double", {"n": 1}) == "2.0"
        server.kill()
        server.start()  # before anybody asked
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                assert await host.call("double", {"n": 2}) == "4.0"
            except (EngineUnavailable, OutcomeUnknown):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            else:
                break


async def test_nothing_piles_up_while_a_server_comes_and_goes(tmp_path: Path) -> None:
    async with host_on(tmp_path, a=raw("dies")) as host:
        open_files: list[int] = []
        for _ in range(6):
            await until(lambda: states(host) == {"a": "ready"})
            open_files.append(len(list(Path("/proc/self/fd").iterdir())))
            with pytest.raises((OutcomeUnknown, EngineUnavailable)):
                await host.call("go")
            await until(lambda: states(host) == {"a": "failed"})
        assert open_files[-1] <= open_files[1] + 1


async def test_messages_of_a_server_are_logged_within_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with host_on(tmp_path, a=raw("talks"), b=real()) as host:
        assert await host.call("go") == "go"
        await until(lambda: any("blah" in line for line in caplog.messages))
        assert await host.call("double", {"n": 1}) == "2.0"
    assert len([line for line in caplog.messages if "blah" in line]) <= 200
