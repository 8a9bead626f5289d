"""Hearing on an event loop that a process has ended."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress


def watch_exit(
    process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, exited: Callable[[], None]
) -> None:
    """Have ``exited`` called on ``loop`` when the process has ended.

    It is not reaped by then, where the system allows that: so long its process group is its own.
    """
    if not hasattr(os, "pidfd_open"):
        given = (process, loop, exited)
        threading.Thread(target=_wait, args=given, name="enginehost-process-exit", daemon=True).start()
        return
    pidfd = os.pidfd_open(process.pid)

    def readable() -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        exited()

    loop.add_reader(pidfd, readable)


def _wait(
    process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, exited: Callable[[], None]
) -> None:
    waitid = getattr(os, "waitid", None)
    if waitid is not None:
        waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:  # macOS before Python 3.13
        process.wait()
    with suppress(RuntimeError):  # the loop has closed meanwhile
        loop.call_soon_threadsafe(exited)
