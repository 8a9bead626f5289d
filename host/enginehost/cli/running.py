"""Runs a host until a signal: listen, load, serve, drain, stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from enginehost.auth import check_binding
from enginehost.cli import startup, telemetry
from enginehost.cli.log import Log
from enginehost.errors import ConfigError, EngineHostError
from enginehost.host import Host
from enginehost.serve import HttpServer
from enginehost.settings import HostSettings

_MOST_OPEN_FILES = 65_536
_ANSWER_SECONDS = 2.0
"""How long answers that are being written may take after the last call has ended."""

_SAME_SIGNAL_SECONDS = 1.0
"""A signal so soon after the first is the same one: wrappers send it to the process and to its group."""

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
    send_last_traces = telemetry.start()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_Running(folder, settings, log).serve())
    finally:
        send_last_traces()
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
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


class _Running:
    """One run of a host."""

    def __init__(self, folder: Path, settings: HostSettings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._stop = asyncio.Event()
        self._stopped_at = 0.0
        self._host = Host(folder, settings=settings, log=log.calls)
        log.redact = self._host.redactor
        self._server = HttpServer(self._host) if settings.http.enabled else None

    async def serve(self) -> None:
        """From the first signal handler to the last answer."""
        began = time.monotonic()
        self._handle_signals()
        try:
            await self._listen()
            if await self._loaded():
                self._tell_ready(time.monotonic() - began)
                await self._stop.wait()
        finally:
            await self._end()
        self._log.event("stopped")

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._reload_policy)

    def _on_stop(self, number: int) -> None:
        name = signal.Signals(number).name
        now = time.monotonic()
        if self._stop.is_set() and now - self._stopped_at < _SAME_SIGNAL_SECONDS:
            return
        if self._stop.is_set():
            self._log.event("killed", signal=name)
            os._exit(128 + number)  # worker processes end with their host
        self._stop.set()
        self._stopped_at = now
        seconds = self._settings.drain_seconds
        self._log.event("stopping", signal=name, calls=self._host.in_flight, drain_seconds=seconds)
        if calls := self._host.in_flight:
            self._log.tell(f"stopping: {calls} calls may take {seconds:g} s more; once more stops at once")

    def _reload_policy(self) -> None:
        try:
            self._host.reload_policy()
        except ConfigError as error:
            _log.error("the policy file is wrong and the old policy stays: %s", error)
        else:
            _log.info("the policy was read again")

    async def _listen(self) -> None:
        """HTTP first: who asks while the engines load hears *loading*, not a refused connection."""
        if self._server is None:
            return
        await self._server.start()
        self._log.event("listening", http=self._server.url)

    async def _loaded(self) -> bool:
        """Start the host; whether it is still wanted when it has."""
        start = asyncio.create_task(self._host.start())
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({start, stop}, return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                start.result()
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
