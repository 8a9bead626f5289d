"""Who this host is on the bus: an id that stays, and an incarnation that is new at each start."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import time
import uuid
from pathlib import Path

from enginehost.file_locks import lock_at_once

log = logging.getLogger("enginehost.databus")


class Identity:
    """The host's id for as long as this object is open.

    The id of a folder's host is kept in a file that is locked while the host runs: a second host on
    the same folder gets an id of its own, which is not kept. So it is where nothing can be written.
    """

    def __init__(self, state_dir: Path | None, folder: Path | None = None) -> None:
        self.incarnation = new_incarnation()
        self._file: int | None = None
        self.host_id = str(uuid.uuid4())
        """The id, also every capability's ``provider_id``."""
        if state_dir is not None:
            self._claim(_id_file(state_dir, folder))

    def function_id(self, service: str, name: str) -> str:
        """The id of a function of this host: the same at every start (UUID version 5)."""
        return str(uuid.uuid5(uuid.UUID(self.host_id), f"{service}\0{name}"))

    def renew(self) -> None:
        """Take an id that nobody has; it is not kept. The incarnation stays."""
        self.host_id = str(uuid.uuid4())

    def close(self) -> None:
        """Let another host have the id."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _claim(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            lock_at_once(self._file)
        except OSError as failure:
            held = isinstance(failure, BlockingIOError)
            why = "another host of this folder holds the kept one" if held else failure.strerror
            log.warning("this host has a fresh databus id that is not kept: %s", why)
            self.close()
            return
        kept = _parsed(os.read(self._file, 64))
        if kept is None:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, f"{self.host_id}\n".encode())
        else:
            self.host_id = str(kept)


def new_incarnation() -> str:
    """32 hexadecimal digits, the first twelve the milliseconds since 1970.

    Two hosts that find themselves with one id agree by it on which was started later.
    """
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def names_file(state_dir: Path, folder: Path | None) -> Path:
    """Where the short names of remote functions are kept for the host of a folder."""
    return _id_file(state_dir, folder).with_suffix(".names")


def _id_file(state_dir: Path, folder: Path | None) -> Path:
    place = str(folder.resolve()) if folder else ""
    digest = hashlib.sha256(place.encode(errors="surrogateescape")).hexdigest()
    return state_dir / "databus" / f"{digest[:32]}.id"


def _parsed(content: bytes) -> uuid.UUID | None:
    try:
        return uuid.UUID(content.decode().strip())
    except ValueError:
        return None
