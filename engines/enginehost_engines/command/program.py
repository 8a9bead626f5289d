"""A running program: its process group, its pipes, its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enginehost_engines.command.flows import Complaints, Printed
from enginehost_engines.process_exit import watch_exit


@dataclass(frozen=True, slots=True)
class Order:
    """What is to run. ``path`` is the program's file, ``stdin`` what it reads (``None``: nothing)."""

    path: str
    words: Sequence[str]
    folder: Path
    env: Mapping[str, str] = field(repr=False)
    stdin: bytes | None = field(repr=False)


class _Input(asyncio.BaseProtocol):
    """The standard input: written as fast as the program reads it."""

    _transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The pipe is open."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """All is written, or nobody reads any more."""
        self._transport = None

    def write(self, data: bytes) -> None:
        """Write all of it, then close."""
        if self._transport is not None:
            self._transport.write(data)
            self._transport.close()

    def abort(self) -> None:
        """Write no more. Nothing is to be done where all is written: asyncio would close the pipe twice."""
        if self._transport is not None and self._transport.get_write_buffer_size():
            self._transport.abort()


class Program:
    """One process in a group of its own, which ends as a whole.

    ``ended`` has its exit status (negative: the signal that killed it); ``gone`` is done when nothing of
    it is left here.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._loop = asyncio.get_running_loop()
        self.printed = Printed()
        self.complaints = Complaints(log)
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        for one in (self.ended, self.printed.over, self.complaints.over):
            one.add_done_callback(self._look_whether_gone)
        self._input = _Input()

    async def start(self, order: Order) -> None:
        """Start it. Raises ``OSError`` where it cannot be."""
        try:
            self._process = self._spawn(order)
        except BaseException:
            self.gone.set_result(None)
            raise
        # a task of its own: one that is cancelled half-way would leave open who closes the files
        connecting = self._loop.create_task(self._connect(order.stdin), name="enginehost-command-connect")
        connecting.add_done_callback(lambda _: watch_exit(self._process, self._loop, self._exited))
        try:
            await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(lambda _: self.abandon())
            raise

    def _spawn(self, order: Order) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - the file names the program, no value does, and there is no shell
            order.words,
            bufsize=0,
            executable=order.path,
            stdin=subprocess.DEVNULL if order.stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=order.folder,
            env=order.env,
            start_new_session=True,  # so that killing it takes the processes it started too
        )

    async def _connect(self, stdin: bytes | None) -> None:
        process = self._process
        await self._loop.connect_read_pipe(lambda: self.printed, process.stdout)
        await self._loop.connect_read_pipe(lambda: self.complaints, process.stderr)
        if stdin is not None:
            await self._loop.connect_write_pipe(lambda: self._input, process.stdin)
            self._input.write(stdin)

    def abandon(self) -> None:
        """Nobody waits for it any more: end it now, with all that it started."""
        if self.gone.done():
            return
        if not self.ended.done():
            self._kill_group()
        self.printed.close()
        self.complaints.close()

    def _look_whether_gone(self, _: object) -> None:
        every = (self.ended, self.printed.over, self.complaints.over)
        if all(one.done() for one in every) and not self.gone.done():
            self.gone.set_result(None)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS: all that is left of it are zombies
            os.killpg(self._process.pid, signal.SIGKILL)

    # its end

    def _exited(self) -> None:
        self._kill_group()  # what it left behind
        returncode = self._process.wait()
        self._input.abort()
        self.printed.program_ended()
        self.complaints.program_ended()
        self.ended.set_result(returncode)
