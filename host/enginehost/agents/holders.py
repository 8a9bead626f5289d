"""By what a process that runs turns is known, so that the next one in its place knows that it has ended.

A place is a locked file of the state directory. Whoever has the lock knows that nobody else has the place:
the turns of who had it before are free, whatever its lease says.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from enginehost.file_locks import lock_at_once

_MOST_PLACES = 64
"""Processes with one state directory that find a place; of further ones the lease says when they ended."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Place:
    """The first free place of a state directory, until :meth:`close`.

    ``origin`` is the same for all who had this place since the machine was started, and nobody else's; it is
    empty where there is none, as in a directory that nothing can be written to.
    """

    def __init__(self, state_dir: Path) -> None:
        self.origin = ""
        self._file: int | None = None
        folder = state_dir / "agents"
        for number in range(_MOST_PLACES):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                file = os.open(folder / f"{number}.lock", os.O_RDWR | os.O_CREAT, 0o600)
            except OSError:
                return
            try:
                lock_at_once(file)
            except OSError:
                os.close(file)
                continue
            self._file, self.origin = file, _origin(file)
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have it."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _origin(file: int) -> str:
    """Of this file on this machine alone: a copy of the state directory elsewhere is another place."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""  # nothing tells this machine from others
    about = os.fstat(file)
    return hashlib.sha256(f"{boot} {about.st_dev} {about.st_ino}".encode()).hexdigest()[:16]
