"""Hosts on several machines call each other's functions, whatever the network does."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

pytestmark = pytest.mark.netns

COUNT = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = count.py
    FUNCTION_NAME = count_up
    FUNCTION_DESCRIPTION = Counts its calls.
    FUNCTION_PARAMETERS = [{"name": "seconds", "type": "number", "default": 0}]
"""
COUNT_SCRIPT = """
    import asyncio

    numbers = iter(range(1, 1_000_000))

    async def count_up(seconds):
        number = next(numbers)
        await asyncio.sleep(seconds)
        return number
"""
NUMBERS = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = numbers.py
    FUNCTION_NAME = numbers
    FUNCTION_DESCRIPTION = Many numbers.
    FUNCTION_PARAMETERS = [{"name": "count", "type": "integer"}]
"""
NUMBERS_SCRIPT = """
    async def numbers(count):
        for number in range(count):
            yield number
"""
OFFERED = {
    "count.smss": COUNT,
    "count.py": COUNT_SCRIPT,
    "numbers.smss": NUMBERS,
    "numbers.py": NUMBERS_SCRIPT,
}
REMOTE = "enginehost.count_up"
BAD = {"loss": 10, "delay_ms": 50, "jitter_ms": 30, "duplication": 5}


@pytest.fixture
def open_bus(monkeypatch: pytest.MonkeyPatch, serve: Any) -> None:
    """Functions of others are let in, whoever signs them."""
    monkeypatch.setenv("ENGINEHOST_DATABUS__ACCEPT", "any")


def post(url: str, name: str, **arguments: Any) -> tuple[int, Any]:
    request = Request(
        f"{url}/v1/functions/{name}", json.dumps(arguments).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)["result"]
    except HTTPError as error:
        return error.code, json.load(error)["code"]


async def call(net: Any, host: int, url: str, name: str = REMOTE, **arguments: Any) -> tuple[int, Any]:
    return await net.within(host, lambda: post(url, name, **arguments))


async def callable_again(net: Any, url: str, patience: float) -> float:
    """How many seconds it took."""
    started = time.monotonic()
    async with asyncio.timeout(patience):
        while (await call(net, 1, url))[0] != 200:
            await asyncio.sleep(0.05)
    return time.monotonic() - started


async def test_a_host_calls_functions_of_a_host_on_another_machine(lossy, serve, open_bus):
    async with lossy(hosts=2) as net, serve(net, 0, OFFERED), serve(net, 1, {}) as here:
        await callable_again(net, here.url, 20)
        assert await call(net, 1, here.url, "enginehost.numbers", count=3) == (200, [0, 1, 2])


async def test_each_call_runs_once_in_bad_weather(lossy, serve, open_bus):
    async with lossy(hosts=2, **BAD) as net, serve(net, 0, OFFERED), serve(net, 1, {}) as here:
        await callable_again(net, here.url, 60)
        first = (await call(net, 1, here.url))[1]
        answers = [await call(net, 1, here.url) for _ in range(30)]
        answers += await asyncio.gather(*(call(net, 1, here.url) for _ in range(100)))
        assert sorted(answers) == [(200, number) for number in range(first + 1, first + 131)]
        assert await call(net, 1, here.url, "enginehost.numbers", count=2_000) == (200, list(range(2_000)))
        counts = await net.set()
        assert counts["lost"]
        assert counts["doubled"]


@pytest.mark.parametrize("seconds", [4, 12])
async def test_after_a_partition_calls_work_again(seconds, lossy, serve, open_bus):
    async with lossy(hosts=2) as net, serve(net, 0, OFFERED), serve(net, 1, {}) as here:
        await callable_again(net, here.url, 20)
        busy = asyncio.ensure_future(call(net, 1, here.url, seconds=60))
        await asyncio.sleep(0.5)
        await net.partition()
        assert await busy == (502, "outcome_unknown")
        status, code = await call(net, 1, here.url)
        assert (status, code) in ((404, "unknown_function"), (503, "engine_unavailable"))
        await asyncio.sleep(seconds - 2)
        await net.heal()
        await callable_again(net, here.url, 20)


async def test_hosts_with_keys_trust_each_other_and_nobody_else(lossy, serve, tmp_path: Path):
    """The default on an open interface: what no trusted key signed is not let in, and not served."""

    def keys(host: int, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "enginehost", "databus", *words],
            env=os.environ | {"XDG_STATE_HOME": str(tmp_path / f"host{host}" / "state")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()[0] if done.stdout else ""

    mine, theirs = keys(1, "keygen"), keys(0, "keygen")
    keys(0, "trust", mine, "--name", "here")
    keys(1, "trust", theirs, "--name", "there")
    async with (
        lossy(hosts=3) as net,
        serve(net, 0, OFFERED) as there,
        serve(net, 1, {}) as here,
        serve(net, 2, {}) as stranger,
    ):
        await callable_again(net, here.url, 20)
        assert await call(net, 1, here.url, "enginehost.numbers", count=3) == (200, [0, 1, 2])
        calls = [event for event in there.events if event["event"] == "call"]
        assert {event["subject"] for event in calls} == {"here"}
        assert (await call(net, 2, stranger.url))[0] == 404
