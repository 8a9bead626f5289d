"""Reading files off the event loop: on one thread, so many at a time that the loop is never kept waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from enginehost.loader import Loaded, Loader

_CHUNK = 256
"""Files read between two looks of the event loop."""


class LoaderThread:
    """Runs a loader. ``was_there(path)``: whether the file had an engine before."""

    def __init__(self, loader: Loader, was_there: Callable[[Path], bool]) -> None:
        self._loader = loader
        self._was_there = was_there
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="enginehost-loader")

    async def load(self, paths: Sequence[Path]) -> list[tuple[Path, Loaded | None]]:
        """What each file gives; ``None`` for one that is not there any more."""
        loop = asyncio.get_running_loop()
        loaded: list[tuple[Path, Loaded | None]] = []
        for start in range(0, len(paths), _CHUNK):
            chunk = paths[start : start + _CHUNK]
            loaded += await loop.run_in_executor(self._thread, self._load_chunk, chunk)
        return loaded

    def close(self) -> None:
        """Read nothing any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _load_chunk(self, paths: Sequence[Path]) -> list[tuple[Path, Loaded | None]]:
        return [(path, self._loader.load(path, reloading=self._was_there(path))) for path in paths]
