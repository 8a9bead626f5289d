"""Starting a worker process, with what it shares with the host."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import NamedTuple

import enginehost
import enginehost_engines
from enginehost_engines.interpreters import environment_of
from enginehost_engines.worker.area import Area, new_area
from enginehost_engines.worker.orphans import VARIABLE

_COMMAND = ("-X", "faulthandler", str(Path(__file__).with_name("worker_main.py")))
_PACKAGES = [str(Path(package.__path__[0])) for package in (enginehost, enginehost_engines)]

_SOCKET_BYTES = 1024 * 1024
"""What the kernel may hold of large messages, as far as it lets us: fewer turns of both processes."""


class Started(NamedTuple):
    """A process that has just been started; ``output`` is a descriptor to read what it writes past Python."""

    process: subprocess.Popen[bytes]
    socket: socket.socket
    output: int
    area: Area


def spawn(interpreter: Path, mark: str) -> Started:
    """Start a worker, marked as :mod:`.orphans` looks for it. Raises ``OSError``."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
    ours_out, output = os.pipe()
    area = new_area()
    shared = [area] if area >= 0 else []
    ends = [str(end) for end in (theirs.fileno(), area, os.getpid())]
    try:
        process = subprocess.Popen(  # noqa: S603 - the interpreter is the host's or a setting's
            [str(interpreter), *_COMMAND, *ends, *_PACKAGES],
            pass_fds=[theirs.fileno(), *shared],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment_of(interpreter) | {VARIABLE: mark},
            start_new_session=True,  # so that killing it takes the processes it started too
        )
    except BaseException:
        ours.close()
        for end in (ours_out, *shared):
            os.close(end)
        raise
    finally:
        theirs.close()
        os.close(output)
    return Started(process, ours, ours_out, Area.of(area, host=True))
