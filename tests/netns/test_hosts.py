"""Hosts in network namespaces, and a peer that calls them over a network that is good, bad or gone."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytestmark = pytest.mark.netns

NUMBER = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = number.py
    FUNCTION_NAME = next_number
    FUNCTION_DESCRIPTION = Counts its calls.
"""
NUMBER_SCRIPT = """
    numbers = iter(range(1, 1_000_000))

    async def next_number():
        return next(numbers)
"""
ECHO = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = echo.py
    FUNCTION_NAME = echo
    FUNCTION_DESCRIPTION = Gives back what came.
    FUNCTION_PARAMETERS = [{"name": "text", "type": "string"}]
"""
ECHO_SCRIPT = """
    async def echo(text):
        return text
"""
JSON = {"Content-Type": "application/json"}
COUNTING = {"next_number.smss": NUMBER, "number.py": NUMBER_SCRIPT}
ECHOING = {"echo.smss": ECHO, "echo.py": ECHO_SCRIPT}


@pytest.mark.parametrize("kind", ["network", "lossy"])
async def test_a_peer_finds_and_calls_functions_of_hosts_on_other_machines(kind, request, serve, peer_in):
    async with (
        request.getfixturevalue(kind)(hosts=2) as net,
        serve(net, 0, COUNTING),
        serve(net, 1, ECHOING) as echoing,
        peer_in(net, 1) as peer,
    ):
        await peer.sees("next_number", "echo")
        await peer.until(lambda: peer.providers == 2)
        assert (await peer.call("next_number", request_id="a"))["result"] == "1"
        assert (await peer.call("echo", {"text": "äöü"}, "b"))["result"] == '"äöü"'
        post = Request(f"{echoing.url}/v1/functions/echo", b'{"text": "h"}', JSON)
        assert await net.within(1, lambda: _answer(post)) == {"result": "h"}


def _answer(request: Request) -> Any:
    with urlopen(request, timeout=20) as answer:
        return json.load(answer)


async def test_each_call_runs_and_is_answered_once_in_bad_weather(lossy, serve, peer_in):
    bad = {"loss": 10, "delay_ms": 50, "jitter_ms": 30, "duplication": 5}
    async with lossy(hosts=2, **bad) as net, serve(net, 0, COUNTING), peer_in(net, 1) as peer:
        await peer.sees("next_number")
        for number in range(100):
            peer.send(peer.named("next_number")["function_id"], request_id=f"one-{number}")
            await asyncio.sleep(0.01)
        peer.send(peer.named("next_number")["function_id"], request_id="many", times=100)
        await peer.until(lambda: len(peer.replies) >= 200)
        await net.set(loss=0, duplication=0, delay_ms=0, jitter_ms=0)
        await peer.call("next_number", request_id="last")
        counts = await net.set()
        asked = {f"one-{number}" for number in range(100)} | {f"many-{number}" for number in range(100)}
        assert Counter(reply["request_id"] for reply in peer.replies) == Counter(asked | {"last"})
        assert sorted(int(reply["result"]) for reply in peer.replies) == list(range(1, 202))
        assert counts["lost"]
        assert counts["doubled"]


async def test_calls_work_again_after_a_short_and_a_long_partition(lossy, serve, peer_in):
    async with (
        lossy(hosts=3) as net,
        serve(net, 0, COUNTING),
        peer_in(net, 1) as short,
        peer_in(net, 2) as long,
    ):
        for peer in (short, long):
            await peer.sees("next_number")
        function_id = short.named("next_number")["function_id"]
        assert (await short.call_id(function_id, request_id="s"))["status"] == 0
        assert (await long.call_id(function_id, request_id="l"))["status"] == 0
        await net.partition(1, 2)
        await asyncio.sleep(5)
        await net.partition(2)
        await _until_answered(short, function_id)
        await asyncio.sleep(10)
        await long.until(lambda: not long.providers and not long.capabilities)
        await net.heal()
        await long.sees("next_number")
        await _until_answered(long, function_id)


async def _until_answered(peer, function_id) -> None:
    """A first request may be lost: its writer is not discovered everywhere at once."""
    async with asyncio.timeout(30):
        for number in itertools.count():
            peer.send(function_id, request_id=f"try-{number}")
            if await _answered(peer, f"try-{number}"):
                break
    await asyncio.gather(*(peer.call_id(function_id, request_id=f"well-{number}") for number in range(10)))


async def _answered(peer, request_id, seconds=2.0) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await peer.until(lambda: any(reply["request_id"] == request_id for reply in peer.replies))
    except TimeoutError:
        return False
    return True
