"""What a client refuses: results that are too large, and to be used in another process than its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from enginehost.databus import Client
from enginehost.errors import TooLarge

pytest.importorskip("cyclonedds")


async def text(arguments: dict[str, Any], call: Any) -> str:
    return "x" * arguments["size"]


async def texts(arguments: dict[str, Any], call: Any) -> AsyncIterator[str]:
    for _ in range(arguments["count"]):
        yield "x" * arguments["size"]


async def test_a_result_over_the_limit_is_refused(dds_domain: int, start_host: Any) -> None:
    host, _ = await start_host()
    host.put("text", text)
    host.put("texts", texts, streaming=True)
    async with Client(domain=dds_domain, max_result_bytes=102) as bus:
        assert len(await bus.call("text", {"size": 100})) == 100
        assert len(await bus.call("texts", {"size": 48, "count": 2})) == 2
        for name, arguments in (("text", {"size": 101}), ("texts", {"size": 48, "count": 3})):
            with pytest.raises(TooLarge) as caught:
                await bus.call(name, arguments)
            assert caught.value.detail["limit"] == 102
        items = bus.stream("texts", {"size": 100, "count": 3})
        assert [len(item) async for item in items] == [100] * 3
        with pytest.raises(TooLarge):
            await anext(bus.stream("texts", {"size": 101, "count": 1}))


FORKED = """
import os, sys
from enginehost.databus import SyncClient
with SyncClient(domain=int(sys.argv[1])) as bus:
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 3, status
    else:
        try:
            bus.functions()
        except RuntimeError as error:
            print(error, flush=True)
        sys.exit(3)
    bus.functions()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_client_says_so_in_a_forked_child_which_can_end(dds_domain: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(dds_domain)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "belongs to another process" in done.stdout


async def test_an_asynchronous_client_says_so_too(dds_domain: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Client(domain=dds_domain) as bus:
        pid = os.getpid()
        with monkeypatch.context() as child:
            child.setattr(os, "getpid", lambda: pid + 1)
            with pytest.raises(RuntimeError, match=f"another process \\({pid}\\)"):
                await bus.call("add")
            with pytest.raises(RuntimeError, match="another process"):
                bus.functions()
        assert bus.functions() == []
