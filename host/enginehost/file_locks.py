"""Locks on files: whoever holds one is alive, since the system lets go of it with the process."""

from __future__ import annotations

import sys


def lock_at_once(file: int) -> None:
    """Lock an open file until it is closed. Raises ``OSError`` where somebody else holds it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
