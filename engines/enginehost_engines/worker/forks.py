"""In a worker: a copy of it that the function made with ``fork`` is no second worker."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress

_worker = 0


def shut_out(sock: socket.socket) -> None:
    """From now on let no forked copy of this process reach the host."""
    global _worker  # noqa: PLW0603 - a process is one
    _worker = os.getpid()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=sock.close)


def is_child() -> bool:
    """Whether this process is such a copy."""
    return os.getpid() != _worker


def leave(error: BaseException | None = None) -> None:
    """End the copy, whose function has returned, or raised ``error``: the call is not its own to answer."""
    status = 0 if error is None else 1
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        status = error.code or 0
    with suppress(Exception):  # the function may have put anything in their place
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)
