"""Reading files that people name: a pipe or a device among them must not hold the host."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from enginehost.errors import ConfigError

_BLOCK = 1 << 20


def read_utf8(path: Path, most: int) -> str:
    """The text of a file of at most ``most`` bytes. Raises :class:`ConfigError`, with the line if known."""
    try:
        data = read_regular(path, most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not usable"
        raise ConfigError(f"the file cannot be read: {reason}", path=str(path)) from error
    if len(data) > most:
        raise ConfigError(f"the file has more than {most} bytes", path=str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("the file is not UTF-8", path=str(path), line=line) from error


def read_regular(path: Path, most: int) -> bytes:
    """The first ``most`` bytes of a regular file (or of what a link leads to).

    Raises ``OSError``: of the system, and ``EINVAL`` for what is no regular file.
    """
    # O_NONBLOCK: to open a pipe would wait for its writer. Plain system calls: 10,000 files in a second.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        data = os.read(descriptor, min(most, _BLOCK))
        while len(data) < most and (more := os.read(descriptor, min(most - len(data), _BLOCK))):
            data += more
        return data
    finally:
        os.close(descriptor)
