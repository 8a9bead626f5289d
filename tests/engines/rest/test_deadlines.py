"""A service that is silent or slow is given up when the time is over, and the caller reads whose time."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host
from enginehost.errors import CallTimeout
from enginehost_engines.rest import StreamRestEngine

from .conftest import exhaust, stay_silent


async def test_a_silent_endpoint_is_given_up_at_the_deadline(make: Any, server: Any, kit: Any) -> None:
    server.answer = stay_silent
    with pytest.raises(CallTimeout, match=r"f: 127\.0\.0\.1:\d+ did not answer within 0\.2 s \(READ_TIMEOUT"):
        await make(READ_TIMEOUT_SECONDS=0.2).execute({}, kit.call(60))
    with pytest.raises(CallTimeout, match="what was left of the call"):
        await make().execute({}, kit.call(0.2))


async def drip(seen: Any, writer: Any) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x\n")
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("answer", [stay_silent, drip])
async def test_in_a_host_the_caller_reads_whose_limit_passed(
    server: Any, tmp_path: Path, answer: Any
) -> None:
    server.answer = answer
    text = f"ENGINE_CLASS = REST\nURL = {server.url}/\nTIMEOUT_SECONDS = 0.3\nFUNCTION_DESCRIPTION = d\n"
    (tmp_path / "one.smss").write_text(text + "FUNCTION_NAME = one\n")
    (tmp_path / "many.smss").write_text(
        text.replace("REST", "prerna.engine.impl.function.StreamRESTFunctionEngine")
        + "FUNCTION_NAME = many\n"
    )
    async with Host(tmp_path, None) as host:
        for name in ("one", "many"):
            with pytest.raises(CallTimeout) as late:
                await host.call(name)
            assert late.value.message == f"{name} did not answer within 0.3 s (its TIMEOUT_SECONDS)"


async def test_an_endpoint_that_drips_is_given_up_at_the_deadline(make: Any, server: Any, kit: Any) -> None:
    server.answer = drip
    with pytest.raises(CallTimeout):
        await make().execute({}, kit.call(0.3))
    with pytest.raises(CallTimeout):
        await exhaust(make(StreamRestEngine).execute({}, kit.call(0.3)))
