"""Watching a folder: which files changed, batch by batch.

watchfiles tells of events; what a batch means is decided by looking at the files themselves, so that
a rename dance or a lost event ends in the right state. Only folders worth watching are watched, and
the set is made anew when folders come or go.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from watchfiles._rust_notify import RustNotify

from enginehost.folder import look

STEP_MS = 40
"""How often events are gathered, milliseconds."""

DEBOUNCE_MS = 400
"""How long a batch may grow while events keep coming, milliseconds."""

LOOK_SECONDS = 1.0
"""How often to look whether the folders themselves are still the same."""

RESCAN_SECONDS = 30.0
"""A full look that finds what events missed."""

_log = logging.getLogger("enginehost.watch")


class Watch:
    """Watches ``root`` and the folders of ``extra`` files; ``polling`` where inotify has run out."""

    def __init__(self, root: Path, extra: Callable[[], Iterable[Path]]) -> None:
        self._root = root
        self._extra = extra
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="enginehost-watch")
        self.polling = False

    async def batches(self, stop: threading.Event) -> AsyncIterator[set[Path] | None]:
        """Paths that may have changed; ``None`` means *look at everything*.

        The watcher is set up before each ``None``, so that nothing falls between the two.
        """
        loop = asyncio.get_running_loop()
        try:
            while not stop.is_set():
                folders = await loop.run_in_executor(self._thread, self._folders)
                watcher = await loop.run_in_executor(self._thread, self._watcher, folders)
                yield None
                async for batch in self._events(watcher, folders, stop):
                    yield batch
        finally:
            self._thread.shutdown(wait=False)

    def _folders(self) -> frozenset[Path]:
        return self._extra_folders().union(look(self._root).folders)

    def _extra_folders(self) -> frozenset[Path]:
        parents = {path.parent for path in self._extra()}
        return frozenset(folder for folder in parents if folder.is_dir())

    def _watcher(self, folders: frozenset[Path]) -> RustNotify:
        paths = [str(folder) for folder in folders]
        try:
            return RustNotify(paths, False, self.polling, 300, False, True)
        except (OSError, RuntimeError) as error:
            if self.polling:
                raise
            _log.warning("the folder cannot be watched by events (%s); it is polled", error)
            self.polling = True
            return self._watcher(frozenset(folder for folder in folders if folder.is_dir()))

    async def _events(
        self, watcher: RustNotify, folders: frozenset[Path], stop: threading.Event
    ) -> AsyncIterator[set[Path] | None]:
        """Batches until the set of folders has changed."""
        loop = asyncio.get_running_loop()
        identity = await loop.run_in_executor(self._thread, _identities, folders | {self._root})
        looked = loop.time()
        with watcher:
            while not stop.is_set():
                changes = await loop.run_in_executor(
                    self._thread, watcher.watch, DEBOUNCE_MS, STEP_MS, int(LOOK_SECONDS * 1000), stop
                )
                if isinstance(changes, set) and changes:
                    yield {Path(text) for _, text in changes}
                    if await loop.run_in_executor(self._thread, self._folders) != folders:
                        return
                elif loop.time() - looked > RESCAN_SECONDS:
                    looked = loop.time()
                    yield None
                elif not await loop.run_in_executor(self._thread, self._extra_folders) <= folders:
                    return  # an engine has come to depend on a file elsewhere
                if await loop.run_in_executor(self._thread, _identities, folders | {self._root}) != identity:
                    return


def _identities(folders: Iterable[Path]) -> tuple[tuple[int, int] | None, ...]:
    return tuple(_identity(folder) for folder in sorted(folders))


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
