import asyncio
import subprocess
import sys
from typing import Any

import anyio
import pytest

from enginehost.caller import Caller
from enginehost.engine import Call
from enginehost_engines.rest import StreamRestEngine, transport
from enginehost_engines.rest.transport import PoolSettings
from enginehost_engines.rest.url import Origin


def pools() -> int:
    return len(transport._pools.get(asyncio.get_running_loop(), {}))


async def test_engines_share_connections_and_the_last_one_closes_them(
    make: Any, server: Any, kit: Any
) -> None:
    one, two = make(), make(StreamRestEngine)
    assert pools() == 0
    for _ in range(3):
        await one.execute({}, kit.call())
        assert [item async for item in two.execute({}, kit.call())] == ["null"]
    assert (pools(), server.opened) == (1, 1)
    await one.close()
    assert pools() == 1
    await two.close()
    assert pools() == 0


async def test_first_calls_at_once_take_the_connections_once(make: Any, server: Any, kit: Any) -> None:
    engine = make()
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(engine.execute, {}, kit.call())
    assert len(server.seen) == 20
    await engine.close()
    assert pools() == 0


async def test_a_cancelled_call_closes_its_connection(make: Any, server: Any, kit: Any) -> None:
    async def silent(seen: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")

    server.answer = silent
    engine = make()
    with anyio.move_on_after(0.1) as scope:
        await engine.execute({}, kit.call())
    assert scope.cancelled_caught
    shared = next(iter(transport._pools[asyncio.get_running_loop()].values()))
    assert shared.pool.connections == []


async def test_no_cookie_is_kept_and_nothing_of_the_caller_travels(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"null", Set_Cookie="session=of-another-caller")
    engine = make()
    caller = Caller("alice", claims={"authorization": "Bearer hush"})
    for _ in range(2):
        await engine.execute({}, Call("f", caller=caller))
    assert server.last.header("cookie") is None
    sent = b" ".join(value for _, value in server.last.headers)
    assert b"alice" not in sent
    assert b"hush" not in sent


async def test_the_address_is_not_logged(make: Any, kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        await make(parameters=["q"]).execute({"q": "private-value"}, kit.call())
    assert "private-value" not in caplog.text


async def test_a_proxy_of_the_environment_is_used_but_not_for_hosts_it_excludes(
    make: Any, server: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://user:pw@127.0.0.1:{server.port}")
    monkeypatch.setenv("no_proxy", "direct.example")
    await make(URL="http://api.example/x?y=1").execute({}, kit.call())
    assert server.last.target == b"http://api.example/x?y=1"
    assert server.last.header("proxy-authorization") == b"Basic dXNlcjpwdw=="
    assert server.last.header("host") == b"api.example"
    assert PoolSettings.of(Origin("http", "direct.example", 80), True).proxy == ""
    assert PoolSettings.of(Origin("http", "api.example", 80), False).proxy == ""


def test_http_libraries_are_loaded_at_the_first_call_only() -> None:
    code = (
        "import sys, enginehost_engines.rest; "
        "print([m for m in ('httpx2', 'httpcore2', 'jmespath', 'ssl', 'h11') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


async def test_a_connection_that_nobody_uses_is_closed_by_itself(make: Any, server: Any, kit: Any) -> None:
    while server.closed.acquire(blocking=False):
        pass
    engine = make(KEEP_ALIVE_SECONDS=0.1)
    for _ in range(2):
        await engine.execute({}, kit.call())
    assert server.opened == 1
    assert await anyio.to_thread.run_sync(lambda: server.closed.acquire(timeout=10))
    await engine.execute({}, kit.call())
    assert server.opened == 2
