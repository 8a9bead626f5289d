"""Keeping the engines in step with a folder: what a batch of events means for the files."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from enginehost.diagnostics import IN_PROBLEMS, Diagnostic, Severity
from enginehost.folder import (
    Fingerprint,
    Listing,
    fingerprint,
    is_smss,
    look,
    pruned,
    smss_fingerprint,
    unusable_file,
    why_unusable,
)
from enginehost.lifecycle import Engines
from enginehost.watch import INOTIFY_HINT, Watch

GRACE_SECONDS = 0.25
"""How long a file may be gone before its engine goes: editors save by removing and renaming."""

FOLDER_GRACE_SECONDS = 2.0
"""The same for the folder itself: deployments swap it."""

_log = logging.getLogger("enginehost.following")


class Following:
    """Follows ``root``; ``policy_file`` is watched beside it, and was ``policy_seen`` when it was read."""

    def __init__(
        self, root: Path, engines: Engines, policy_file: Path | None, policy_seen: Fingerprint | None = None
    ) -> None:
        self._root = root
        self._engines = engines
        self._policy_file = policy_file
        self._policy_seen = policy_seen
        self._listing = Listing()
        self._stop = threading.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._watch = Watch(root, self._watched)
        engines.news.also(self.unusable)

    async def load(self) -> None:
        """Load everything there is."""
        listing = await self._look()
        self._listing = listing
        if listing.missing:
            _log.warning("there is no folder %s (yet)", self._root, extra=IN_PROBLEMS)
        await self._engines.update(listing.files)

    def start(self, policy_changed: Callable[[], None]) -> None:
        """Follow from now on; ``policy_changed`` is called when the policy file was written."""
        self._task = asyncio.get_running_loop().create_task(self._follow(policy_changed))

    async def stop(self) -> None:
        """Follow no more."""
        self._stop.set()
        self._stopping.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def problems(self) -> list[Diagnostic]:
        """What is wrong with the folder as a whole."""
        found: list[Diagnostic] = []
        if self._listing.missing:
            hint = "create it: it is picked up when it appears"
            message = "there is no such folder"
            found.append(Diagnostic(str(self._root), 0, 0, Severity.ERROR, "folder-missing", message, hint))
        if self._watch.polling:
            message = "the system has no more inotify watches or instances; the folder is polled"
            hint = f"{INOTIFY_HINT}; until then changes are seen a little later"
            found.append(Diagnostic(str(self._root), 0, 0, Severity.WARNING, "polling", message, hint))
        return found

    def unusable(self) -> list[Diagnostic]:
        """What is named like a smss file and is none, as of the last look at the whole folder."""
        return [unusable_file(path, why) for path, why in sorted(self._listing.unusable.items())]

    def _watched(self) -> list[Path]:
        paths = list(self._engines.watched())
        return [*paths, self._policy_file] if self._policy_file is not None else paths

    async def _look(self) -> Listing:
        return await asyncio.get_running_loop().run_in_executor(None, look, self._root)

    async def _follow(self, policy_changed: Callable[[], None]) -> None:
        async for batch in self._watch.batches(self._stop):
            try:
                if self._policy_is_new():
                    policy_changed()
                if batch is None:
                    await self._catch_up()
                else:
                    await self._take(batch)
            except Exception:  # noqa: BLE001 - the next look finds what this one missed
                _log.exception("a change in the folder could not be followed")

    def _policy_is_new(self) -> bool:
        """Looked up, not told by events: it may be older than the watch, or a link that was turned."""
        if self._policy_file is None:
            return False
        before, self._policy_seen = self._policy_seen, fingerprint(self._policy_file)
        return before != self._policy_seen

    async def _catch_up(self) -> None:
        """Compare everything with what was loaded."""
        listing = await self._look()
        swapped = listing.missing
        until = asyncio.get_running_loop().time() + FOLDER_GRACE_SECONDS
        while listing.missing and asyncio.get_running_loop().time() < until and not self._stop.is_set():
            await self._pause(GRACE_SECONDS)
            listing = await self._look()
        self._tell_of_folder(self._listing.missing, listing.missing)
        self._listing = listing
        known = self._engines.files
        changed = {path: seen for path, seen in listing.files.items() if known.get(path) != seen}
        outdated = await asyncio.get_running_loop().run_in_executor(None, self._engines.outdated)
        for path in (*outdated, *self._engines.unmade()):
            if path in listing.files:
                changed[path] = listing.files[path]
        gone = [path for path in known if path not in listing.files]
        if gone and not listing.missing:
            if swapped:  # it may come back file by file
                await self._engines.update(changed)
                changed = {}
            await self._pause(FOLDER_GRACE_SECONDS if swapped else GRACE_SECONDS)
            gone = [path for path in gone if smss_fingerprint(path) is None]
        if changed or gone:
            await self._engines.update(changed, gone)
        self._engines.news.look()

    def _tell_of_folder(self, was_missing: bool, is_missing: bool) -> None:
        if is_missing and not was_missing:
            _log.warning("the folder %s is gone, and its functions with it", self._root)
        elif was_missing and not is_missing:
            _log.info("the folder %s is there", self._root)

    async def _take(self, batch: set[Path]) -> None:
        """Load what the events name: smss files, and those whose scripts they are."""
        scripts = self._engines.watched()
        named = {path for path in batch if is_smss(path) and self._inside(path)}
        for path in batch:
            named.update(scripts.get(path, ()))
            if not is_smss(path):
                named.update(self._engines.unmade(path))
        if not named:
            return
        known = self._engines.files
        now = {path: smss_fingerprint(path) for path in named}
        self._note_unusable(now)
        missing = [path for path, seen in now.items() if seen is None and path in known]
        changed: dict[Path, Fingerprint] = {path: seen for path, seen in now.items() if seen is not None}
        if changed:
            await self._engines.update(changed)
        if missing:
            await self._pause(GRACE_SECONDS)
            back = {path: seen for path in missing if (seen := smss_fingerprint(path)) is not None}
            await self._engines.update(back, [path for path in missing if path not in back])

    def _note_unusable(self, now: Mapping[Path, Fingerprint | None]) -> None:
        """Keep in step what is named like a smss file and is none."""
        for path, seen in now.items():
            is_folder = os.path.isdir(path)  # noqa: PTH112 - Path's raises where it may not look
            if seen is None and os.path.lexists(path) and not is_folder:
                self._listing.unusable[path] = why_unusable(path)
            else:
                self._listing.unusable.pop(path, None)
        self._engines.news.look()

    def _inside(self, path: Path) -> bool:
        try:
            parts = path.relative_to(self._root).parts[:-1]
        except ValueError:
            return False
        return not any(pruned(part) for part in parts)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
