"""Runs a host until a signal: listen, load, serve, drain, stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from enginehost.auth import check_binding
from enginehost.call import Call
from enginehost.cli import startup, telemetry
from enginehost.cli.log import Log
from enginehost.cli.secrecy import learn_from
from enginehost.cli.signals import Signals
from enginehost.collector import collect_seldom
from enginehost.errors import ConfigError, EngineHostError
from enginehost.host import Host
from enginehost.serve import HttpServer
from enginehost.settings import HostSettings

_MOST_OPEN_FILES = 65_536
_ANSWER_SECONDS = 1.0
"""How long answers that are being written may take after the last call has ended."""

_KILL_SECONDS = 1.0
"""How long a process that is to end at once may take to write down what it ends, half of it for the calls."""

_log = logging.getLogger("enginehost.run")


def run_host(folder: Path, settings: HostSettings) -> int:
    """Serve ``folder`` until SIGTERM or SIGINT; the exit code.

    Raises :class:`~enginehost.errors.EngineHostError` where the host cannot start.
    """
    if settings.http.enabled:
        check_binding(settings, settings.http.address)
    log = Log(settings.log)
    log.start()
    _raise_open_files()
    if not settings.debuggable:
        _shut_out_debuggers()
    send_last_traces = telemetry.start()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(folder, settings, log))
    finally:
        send_last_traces()
    return 0


async def _serve(folder: Path, settings: HostSettings, log: Log) -> None:
    await _Running(folder, settings, log).serve()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _raise_open_files() -> None:
    """Each connection is an open file: take as many as the system gives."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # the limit stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_PR_SET_DUMPABLE = 4  # prctl(2)


def _shut_out_debuggers() -> None:
    """Keep what worker processes are not given out of their reach: they run as the same user."""
    with suppress(ImportError, OSError, AttributeError):  # another system
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


class _Running:
    """One run of a host."""

    def __init__(self, folder: Path, settings: HostSettings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._host = Host(folder, settings=settings, log=log.calls)
        log.redact = self._host.redactor
        learn_from(self._host.redactor)
        self._server = HttpServer(self._host) if settings.http.enabled else None

    async def serve(self) -> None:
        """From the first signal handler to the last answer."""
        began = time.monotonic()
        signals = Signals(
            lambda number: self._on_loop(self._begin_to_stop, number),
            self._kill,
            lambda: self._on_loop(self._reload_policy),
        )
        with signals.handled():
            try:
                await self._listen()
                if await self._loaded():
                    self._tell_ready(time.monotonic() - began)
                    await self._stop.wait()
            finally:
                await self._end()
            self._log.event("stopped")

    def _on_loop(self, work: Callable[..., None], *given: Any) -> None:
        with suppress(RuntimeError):  # the loop has closed meanwhile
            self._loop.call_soon_threadsafe(work, *given)

    def _begin_to_stop(self, number: int) -> None:
        self._stop.set()
        name, seconds = signal.Signals(number).name, self._settings.drain_seconds
        self._log.event("stopping", signal=name, calls=self._host.in_flight, drain_seconds=seconds)
        if calls := self._host.in_flight:
            self._log.tell(f"stopping: {calls} calls may take {seconds:g} s more; once more stops at once")

    def _kill(self, number: int, busy: Call | None) -> None:
        """End the process, on a thread: with records of its calls, and whether or not they can be written."""
        last = Thread(target=self._write_down, args=(number, busy), daemon=True)
        last.start()
        last.join(_KILL_SECONDS)
        os._exit(128 + number)  # worker processes end with their host

    def _write_down(self, number: int, busy: Call | None) -> None:
        calls = self._host.in_flight
        self._on_loop(self._host.abandon)
        until = time.monotonic() + _KILL_SECONDS / 2
        while self._host.in_flight and time.monotonic() < until:
            time.sleep(0.01)
        self._host.write_down(busy)
        self._log.event("killed", signal=signal.Signals(number).name, calls=calls)

    def _reload_policy(self) -> None:
        try:
            self._host.reload_policy()
        except ConfigError as error:
            _log.error("the policy file is wrong and the old policy stays: %s", error)

    async def _listen(self) -> None:
        """HTTP first: who asks while the engines load hears *loading*, not a refused connection."""
        if self._server is None:
            return
        await self._server.start()
        self._log.event("listening", http=self._server.url, address=self._server.address)

    async def _loaded(self) -> bool:
        """Start the host; whether it is still wanted when it has."""
        start = asyncio.create_task(self._host.start())
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({start, stop}, return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                start.result()
                collect_seldom()
                gc.freeze()  # else the collector walks 10,000 engines that stay, and holds up calls for 0.2 s
            return not self._stop.is_set()
        finally:
            for task in (start, stop):
                task.cancel()
            await asyncio.gather(start, stop, return_exceptions=True)

    def _tell_ready(self, seconds: float) -> None:
        host, server = self._host, self._server
        problems = host.problems()
        facts: dict[str, Any] = {
            "http": server.url if server else None,
            "address": server.address if server else None,
            "functions": len(host.catalog),
            "problems": len(problems),
            "databus": _in_short(host.bus.describe()) if host.bus else None,
            "seconds": round(seconds, 3),
        }
        self._log.problems_follow = False
        self._log.event("ready", **facts)
        for problem in problems:
            self._log.event("problem", **problem.to_json())
        self._log.tell(startup.page(host, server, seconds, self._log.stream))

    async def _end(self) -> None:
        """The host first: until the server stops, whoever still comes reads 503."""
        try:
            await self._host.stop()
        except EngineHostError as error:
            _log.error("the host did not stop cleanly: %s", error)
        if self._server is not None:
            await self._server.stop(_ANSWER_SECONDS)


def _in_short(bus: dict[str, Any]) -> dict[str, Any]:
    return {name: bus[name] for name in ("domain", "interface", "service", "host_id") if name in bus}
