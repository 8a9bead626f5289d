"""Short names of remote functions: who had one first keeps it, over restarts too."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

log = logging.getLogger("enginehost.databus")

MOST_KEPT = 50_000
WRITE_AFTER = 0.5
"""Seconds after a new name until the file is written: many come at once."""


class Aliases:
    """``name`` → ``service.name``, kept in ``path`` (nowhere without one)."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._names = _read(path) if path is not None else {}
        self._write: asyncio.TimerHandle | None = None

    @property
    def kept(self) -> bool:
        """Whether they outlast this process."""
        return self._path is not None

    def claim(self, name: str, target: str, free: Callable[[str], bool]) -> bool:
        """Whether ``name`` stands for ``target``: it does already, or is ``free`` and from now on does."""
        holder = self._names.get(name)
        if holder is not None or len(self._names) >= MOST_KEPT or not free(name):
            return holder == target
        self._names[name] = target
        if self._path is not None and self._write is None:
            self._write = asyncio.get_running_loop().call_later(WRITE_AFTER, self._save)
        return True

    def holder(self, name: str) -> str | None:
        """What a name stands for."""
        return self._names.get(name)

    def close(self) -> None:
        """Write what is not yet written."""
        if self._write is not None:
            self._save()

    def _save(self) -> None:
        if self._write is not None:
            self._write.cancel()
            self._write = None
        if self._path is None:
            return
        beside = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(self._names, ensure_ascii=False), "utf-8")
            beside.replace(self._path)
        except OSError as failure:
            log.warning("the short names of remote functions are not kept: %s", failure.strerror)
            with suppress(OSError):
                beside.unlink()


def _read(path: Path) -> dict[str, str]:
    try:
        found: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as failure:
        log.warning("the short names of remote functions cannot be read, and start anew: %s", failure)
        return {}
    if not isinstance(found, dict):
        return {}
    named = cast("dict[str, Any]", found)
    return {name: target for name, target in named.items() if isinstance(target, str)}
