"""The process of a server that a file names, with everything that it starts.

It leads a process group of its own, which is killed when it ends, when the engine closes, and (by a small
guard, a shell that waits for the host's end of a pipe to close) when the host dies without a word.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from enginehost.errors import EngineUnavailable
from enginehost_engines.mcp.allowance import Allowance
from enginehost_engines.mcp.results import one_line

GRACE_SECONDS = 2.0
"""How long a server may take to end by itself after its input was closed."""

TERM_SECONDS = 1.0
"""How long it may take after SIGTERM."""

LAST_WORDS_SECONDS = 0.5
"""How long after its end it is listened to, and after its last output its end is waited for."""

LONGEST_LINE = 2000
_BASE = re.compile(r"HOME|LANG|LC_\w+|LOGNAME|PATH|SHELL|TERM|TMPDIR|TZ|USER")
_GUARD = 'trap "" HUP INT TERM; read -r word || kill -s KILL -- "-$1"'
"""A line means that all is well; the end of the pipe, that the host is gone."""


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """The variables of a server: a few harmless ones of the host's, and its ``own``."""
    base = {name: text for name, text in os.environ.items() if _BASE.fullmatch(name)}
    return {**base, **own}


class ServerProcess:
    """A running server. ``stdin`` and ``stdout`` are its pipes; ``said`` its last words on ``stderr``."""

    def __init__(self, process: subprocess.Popen[bytes], log: logging.Logger) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._guard = _guard(process.pid)
        self._log = log
        self.said: deque[str] = deque(maxlen=5)
        self._output: asyncio.StreamReader | None = None
        self._errors: asyncio.Task[None] | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self.ended = asyncio.Event()
        self._watch_exit()

    @classmethod
    async def start(
        cls, command: Sequence[str], env: Mapping[str, str], folder: Path, log: logging.Logger
    ) -> ServerProcess:
        """Start ``command`` in ``folder``. Raises ``EngineUnavailable`` where it cannot be started."""
        try:
            # no thread: a caller that is cancelled meanwhile would leave a process that nobody knows
            process = subprocess.Popen(  # noqa: S603, ASYNC220 - the file's own words, without a shell
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=dict(env),
                cwd=folder,
                start_new_session=True,  # so that killing it takes the processes it started too
            )
        except (OSError, ValueError) as error:
            raise _not_started(command[0], env, folder, error) from error
        return cls(process, log)

    async def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Its output and its input; its error output goes to the log from now on."""
        process, loop = self._process, self._loop
        self._output = await self._reader(process.stdout)
        errors = await self._reader(process.stderr)
        self._errors = loop.create_task(self._tell(errors), name="enginehost-mcp-stderr")
        # of StreamReaderProtocol only the flow control is used, which is what StreamWriter needs to drain
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), loop=loop)
        transport, _ = await loop.connect_write_pipe(lambda: protocol, process.stdin)
        return self._output, asyncio.StreamWriter(transport, protocol, None, loop)

    async def _reader(self, pipe: Any) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(256 * 1024, loop=self._loop)
        made = await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader, loop=self._loop), pipe
        )
        self._transports.append(made[0])
        return reader

    @property
    def end(self) -> str:
        """How it ended, with its last words."""
        code = self._process.returncode
        if code is None:
            how = "closed its output"
        elif code < 0:
            how = f"was ended by {_signal_name(-code)}"
        else:
            how = f"ended with exit code {code}"
        last = self.said[-1] if self.said else ""
        return f"the server {how}" + (f": {last}" if last else "")

    async def stop(self) -> None:
        """End it with all that it started: it may end by itself, is asked to, and is made to.

        Its input has been closed before. Whatever comes between (a cancellation), nothing of it is left.
        """
        try:
            try:
                if not await self._ends_within(GRACE_SECONDS):
                    self._signal(signal.SIGTERM)
                    await self._ends_within(TERM_SECONDS)
            finally:
                self.kill()
            await self._ends_within(TERM_SECONDS)
            if self._errors is not None:
                await asyncio.wait({self._errors}, timeout=LAST_WORDS_SECONDS)
        finally:
            self._let_go()

    def kill(self) -> None:
        """End it and its group now."""
        self._signal(signal.SIGKILL)

    def _let_go(self) -> None:
        """Close what is left of its pipes: one that left the group may hold their other ends."""
        if self._errors is not None:
            self._errors.cancel()
        for transport in self._transports:
            transport.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if self._output is None and pipe is not None:
                pipe.close()

    def _signal(self, number: int) -> None:
        # the group's id is the leader's, which is not given away before it is reaped in _exited
        if not self.ended.is_set():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    async def _ends_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ended.wait()
        return self.ended.is_set()

    def _watch_exit(self) -> None:
        if sys.platform == "linux":
            pidfd = os.pidfd_open(self._process.pid)
            self._loop.add_reader(pidfd, self._readable, pidfd)
        else:
            threading.Thread(target=self._wait_on_thread, name="enginehost-mcp-exit", daemon=True).start()

    def _readable(self, pidfd: int) -> None:
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self._exited()

    def _wait_on_thread(self) -> None:
        waitid = getattr(os, "waitid", None)
        if waitid is not None:
            waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS before Python 3.13
            while not _is_zombie(self._process.pid):
                time.sleep(0.05)
        with suppress(RuntimeError):  # the loop has closed meanwhile
            self._loop.call_soon_threadsafe(self._exited)

    def _exited(self) -> None:
        self._signal(signal.SIGKILL)  # what it left behind
        self._process.wait()
        self.ended.set()
        if self._output is not None:  # whoever left the group may hold the pipe open for ever
            self._loop.call_later(LAST_WORDS_SECONDS, self._output.feed_eof)
        _dismiss(self._guard)

    async def _tell(self, errors: asyncio.StreamReader) -> None:
        """Log what it says on its error output, line by line, within reason."""
        allowance = Allowance(self._log)
        rest = b""
        while chunk := await errors.read(64 * 1024):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[:LONGEST_LINE]
            for line in lines:
                self._tell_line(line, allowance)
        self._tell_line(rest, allowance)

    def _tell_line(self, line: bytes, allowance: Allowance) -> None:
        text = one_line(line[: 4 * LONGEST_LINE].decode("utf-8", "replace"), LONGEST_LINE)
        if not text:
            return
        self.said.append(text[:300])
        allowance.tell(logging.INFO, text)


def _guard(group: int) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(  # noqa: S603 - a fixed text
            ["/bin/sh", "-c", _GUARD, "enginehost-guard", str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
    except OSError:  # no shell here: a server that is worth its name ends when its input does
        return None


def _dismiss(guard: subprocess.Popen[bytes] | None) -> None:
    if guard is None or guard.stdin is None:
        return
    with suppress(OSError):
        guard.stdin.write(b"\n")
    with suppress(OSError):
        guard.stdin.close()
    threading.Thread(target=guard.wait, name="enginehost-mcp-guard", daemon=True).start()


def _not_started(
    program: str, env: Mapping[str, str], folder: Path, error: OSError | ValueError
) -> EngineUnavailable:
    if not folder.is_dir():
        return EngineUnavailable("MCP_FOLDER is no folder", reason="no such folder")
    if "/" not in program and shutil.which(program, path=env.get("PATH")) is None:
        return EngineUnavailable(
            f"there is no program {program!r} on PATH: install it, or write its whole path into MCP_COMMAND",
            reason="no such program",
        )
    why = error.strerror if isinstance(error, OSError) else str(error)
    return EngineUnavailable(f"MCP_COMMAND cannot be started: {why}", reason="not started")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _is_zombie(pid: int) -> bool:
    ps = shutil.which("ps") or "/bin/ps"
    done = subprocess.run([ps, "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)  # noqa: S603
    return not done.stdout.strip() or done.stdout.strip().startswith(b"Z")
