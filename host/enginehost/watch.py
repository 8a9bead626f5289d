"""Watching a folder: which files changed, batch by batch.

watchfiles tells of events; what a batch means is decided by looking at the files themselves, so that
a rename dance or a lost event ends in the right state. Only folders worth watching are watched, and
the set is made anew when folders come or go.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from watchfiles._rust_notify import RustNotify

from enginehost.folder import Fingerprint, fingerprint, look

STEP_MS = 40
"""How often events are gathered, milliseconds."""

DEBOUNCE_MS = 400
"""How long a batch may grow while events keep coming, milliseconds."""

LOOK_SECONDS = 1.0
"""How often to look whether the folders themselves are still the same."""

RESCAN_SECONDS = 30.0
"""A full look that finds what events missed, and another try of events while the folder is polled."""

POLL_SECONDS = 0.5
"""Between two looks where inotify has run out. Our own: the notifier's polling sees whole seconds only."""

_POLL_SHARE = 20
"""Looking at a large folder may use this part of the time."""

INOTIFY_HINT = "raise fs.inotify.max_user_watches and fs.inotify.max_user_instances (sysctl)"

Identities = tuple[tuple[int, int] | None, ...]
Snapshot = dict[Path, Fingerprint | tuple[int, int] | None]

_log = logging.getLogger("enginehost.watch")


def notifier(folders: Iterable[Path]) -> RustNotify:
    """Events for those of ``folders`` that are there and may be read.

    Raises ``OSError`` or ``RuntimeError`` where the system has no more watches or notifiers.
    """
    # `ignore_permission_denied` of the notifier would also hide that the watches have run out.
    while True:
        paths = [str(folder) for folder in folders if os.access(folder, os.R_OK | os.X_OK)]
        with suppress(FileNotFoundError):  # one went just now
            return RustNotify(paths, False, False, 0, False, False)


class Watch:
    """Watches ``root`` and the folders of ``extra`` files; ``polling`` while inotify has run out."""

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
                # before the watcher is made: a folder that is swapped from here on is noticed
                identity = await loop.run_in_executor(self._thread, _identities, folders | {self._root})
                watcher = await loop.run_in_executor(self._thread, self._watcher, folders)
                seen = await loop.run_in_executor(self._thread, self._snapshot) if watcher is None else {}
                yield None
                if watcher is None:
                    changes = self._polled(seen, stop)
                else:
                    changes = self._events(watcher, folders, identity, stop)
                async for batch in changes:
                    yield batch
        finally:
            self._thread.shutdown(wait=False)

    def _folders(self) -> frozenset[Path]:
        return self._extra_folders().union(look(self._root).folders)

    def _extra_folders(self) -> frozenset[Path]:
        parents = {path.parent for path in self._extra()}
        return frozenset(folder for folder in parents if folder.is_dir())

    def _watcher(self, folders: frozenset[Path]) -> RustNotify | None:
        """``None`` where the folders have to be polled."""
        try:
            watcher = notifier(folders)
        except (OSError, RuntimeError) as error:
            if not self.polling:
                _log.warning("the folder cannot be watched by events (%s); it is polled", error)
            self.polling = True
            return None
        if self.polling:
            _log.info("the folder is watched by events again")
        self.polling = False
        return watcher

    def _snapshot(self) -> Snapshot:
        """What events would tell of: each smss file, each file that engines depend on, the folder itself."""
        listing = look(self._root)
        seen: Snapshot = {path: fingerprint(path) for path in self._extra()}
        seen.update(listing.files)
        seen[self._root] = _identity(self._root)
        return seen

    async def _polled(self, seen: Snapshot, stop: threading.Event) -> AsyncIterator[set[Path] | None]:
        """Batches found by looking, until it is time to try events again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + RESCAN_SECONDS
        pause = POLL_SECONDS
        while loop.time() < until and not await loop.run_in_executor(self._thread, stop.wait, pause):
            started = loop.time()
            before, seen = seen, await loop.run_in_executor(self._thread, self._snapshot)
            pause = max(POLL_SECONDS, (loop.time() - started) * _POLL_SHARE)
            if before[self._root] != seen[self._root]:
                yield None
            elif changed := {
                path for path in before.keys() | seen.keys() if before.get(path) != seen.get(path)
            }:
                yield changed

    async def _events(
        self, watcher: RustNotify, folders: frozenset[Path], identity: Identities, stop: threading.Event
    ) -> AsyncIterator[set[Path] | None]:
        """Batches until the set of folders has changed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + RESCAN_SECONDS
        with watcher:
            while not stop.is_set():
                try:
                    changes = await loop.run_in_executor(
                        self._thread, watcher.watch, DEBOUNCE_MS, STEP_MS, int(LOOK_SECONDS * 1000), stop
                    )
                except (OSError, RuntimeError) as error:  # a name that is not UTF-8, for one
                    _log.debug("the watcher failed and is made anew: %s", error)
                    await loop.run_in_executor(self._thread, stop.wait, POLL_SECONDS)
                    return
                if isinstance(changes, set) and changes:
                    yield {Path(text) for _, text in changes}
                    if await loop.run_in_executor(self._thread, self._folders) != folders:
                        return
                elif loop.time() > until:
                    return
                elif not await loop.run_in_executor(self._thread, self._extra_folders) <= folders:
                    return  # an engine has come to depend on a file elsewhere
                if await loop.run_in_executor(self._thread, _identities, folders | {self._root}) != identity:
                    return


def _identities(folders: Iterable[Path]) -> Identities:
    return tuple(_identity(folder) for folder in sorted(folders))


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
