"""How the calls of a host that stops end: by themselves if they can, and with an answer in any case."""

from __future__ import annotations

import asyncio

from enginehost.invoke import Invoker

_ANSWER_SECONDS = 2.0
"""How long calls that were stopped may take to answer."""


async def end_calls(invoker: Invoker, drain: float) -> None:
    """Let the calls that run end for ``drain`` seconds, then end them. New ones are refused already."""
    await invoker.end_held(asyncio.current_task())  # which cannot read on while it stops the host
    await _drained(invoker, drain)
    stopped = invoker.stop_waiting()
    await invoker.end_held()  # a reader that has stopped reading would never let them end
    if stopped:
        await _drained(invoker, _ANSWER_SECONDS)
        await invoker.end_held()


async def _drained(invoker: Invoker, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while invoker.in_flight and loop.time() < until:  # noqa: ASYNC110 - an event would cost each call
        await asyncio.sleep(0.01)
