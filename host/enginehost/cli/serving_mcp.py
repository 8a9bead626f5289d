"""Runs a host for the one client at the other end of stdin and stdout."""

from __future__ import annotations

import asyncio
import gc
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from enginehost.caller import LOCAL
from enginehost.cli import telemetry
from enginehost.cli.log import Log
from enginehost.cli.running import loop_factory
from enginehost.cli.secrecy import learn_from
from enginehost.collector import collect_seldom
from enginehost.host import Host
from enginehost.serve.mcp.stdio import StdioServer, own_streams
from enginehost.settings import HostSettings

CLIENT = replace(LOCAL, face="mcp")
"""The program that started us: it owns the process, as whoever runs ``enginehost call`` does."""


def serve_stdio(folder: Path, settings: HostSettings, tags: frozenset[str]) -> int:
    """Serve ``folder`` until stdin ends, or until SIGTERM or SIGINT; the exit code.

    Raises :class:`~enginehost.errors.EngineHostError` where the host cannot start.
    """
    log = Log(settings.log)
    log.start()
    send_last_traces = telemetry.start()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(folder, settings, log, tags))
    finally:
        send_last_traces()
    return 0


async def _serve(folder: Path, settings: HostSettings, log: Log, tags: frozenset[str]) -> None:
    lines = await own_streams()
    host = Host(folder, settings=settings, log=log.calls)
    log.redact = host.redactor
    learn_from(host.redactor)
    loop = asyncio.get_running_loop()
    serving = asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: serving.cancel() if serving is not None else None)
    async with host:
        collect_seldom()
        gc.freeze()
        for problem in host.problems():
            log.event("problem", **problem.to_json())
        with suppress(asyncio.CancelledError):
            await StdioServer(host, CLIENT, tags).serve(lines)
        await lines.flush()
