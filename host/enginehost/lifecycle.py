"""The engines of a folder through their lives: load, open, replace, go stale, close.

A new version takes over only when it is ready; the old one serves until then, and the calls that run
on it end on it. Lives on the host's event loop; files are read on one loader thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from enginehost.catalog import Catalog, EngineRecord
from enginehost.closing import Closing
from enginehost.collector import uncollected
from enginehost.diagnostics import FAILED_BEFORE, Diagnostic, Severity, without
from enginehost.engine import AbstractFunctionEngine, EngineState, IFunctionEngine
from enginehost.engine_ids import EngineIds, of_ids
from enginehost.folder import Fingerprint, fingerprint
from enginehost.loader import Loaded, Loader, functions_of
from enginehost.loader_thread import LoaderThread
from enginehost.news import Event, News
from enginehost.patience import Impatient, within
from enginehost.retries import Retries
from enginehost.slot import Slot, watched_now

_CANNOT_SERVE = "cannot-serve"

_TRY = "`enginehost validate --load` tries it without a host"

_LOOK_SECONDS = 0.5
"""How soon who waits for engines to open learns that one of them takes long."""

_MANY = 1000
"""So many files at once are a folder being loaded: what is made of them stays."""

_log = logging.getLogger("enginehost.lifecycle")


class Engines:
    """Owns the engines that come from files."""

    def __init__(
        self, catalog: Catalog, loader: Loader, root: Path, *, open_timeout: float, drain_seconds: float
    ) -> None:
        self._catalog = catalog
        self._loader = loader
        self._open_timeout = open_timeout
        self.news = News(catalog, root)
        self._closing = Closing(drain_seconds)
        self._ids = EngineIds(catalog, root)
        self._thread = LoaderThread(loader, self._was_there)
        self._slots: dict[Path, Slot] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening: dict[asyncio.Task[None], Path] = {}
        self._take_long: set[Path] = set()
        """Files whose engines said that opening takes long."""
        self._turn = asyncio.Lock()
        """One update at a time, so that an older look never overwrites a newer one."""
        self._retries = Retries(self._try_again)
        self._changed_early: set[Path] = set()
        """Files whose engine spoke while it was being made."""

    @property
    def files(self) -> Mapping[Path, Fingerprint]:
        """The files as they were when last loaded."""
        return {path: slot.fingerprint for path, slot in self._slots.items()}

    def watched(self) -> dict[Path, list[Path]]:
        """Files that engines name (scripts), each with the smss files to load again when it changes."""
        found: dict[Path, list[Path]] = {}
        for slot in tuple(self._slots.values()):  # the watcher asks on a thread of its own
            for path in slot.watched:
                found.setdefault(path, []).append(slot.path)
        return found

    def outdated(self) -> list[Path]:
        """The smss files whose scripts are not as they were when loaded (looks at the disk)."""
        slots = list(self._slots.values())
        scripts = {path for slot in slots for path in slot.watched}
        now = {path: fingerprint(path) for path in scripts}
        return [
            slot.path for slot in slots if any(now[path] != seen for path, seen in list(slot.watched.items()))
        ]

    def unmade(self, beside: Path | None = None) -> list[Path]:
        """The smss files of which no engine could be made, so that nobody knows which files it depends on.

        ``beside``: only those in whose folder, or below it, that path lies.
        """
        return [
            slot.path
            for slot in self._slots.values()
            if slot.unmade and (beside is None or slot.path.parent in beside.parents)
        ]

    async def update(self, changed: Mapping[Path, Fingerprint], gone: Iterable[Path] = ()) -> None:
        """Load the ``changed`` files and take out those that are ``gone``.

        Returns when every file that needs no opening serves; :meth:`opened` waits for the others.
        """
        async with self._turn:
            self._drop(gone)
            if changed:
                with uncollected(stays=len(changed) >= _MANY):
                    self._place(changed, await self._thread.load(list(changed)))
            self.news.look()

    async def opened(self, timeout: float, *, patient: bool = False) -> bool:
        """Wait until every engine that is being opened has opened or failed, for so many seconds at most;
        whether that came in time.

        Those that say that it takes long are only waited for by who is ``patient``, and then as long as
        they may take.
        """
        until = asyncio.get_running_loop().time() + timeout
        while tasks := [task for task, path in self._opening.items() if path not in self._take_long]:
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await asyncio.wait(tasks, timeout=min(left, _LOOK_SECONDS))
        long = [task for task, path in self._opening.items() if path in self._take_long]
        if patient and long:
            await asyncio.wait(long)
        return not self._opening

    async def close(self) -> None:
        """Close every engine; calls that still run are not waited for."""
        self.news.stop()
        self._closing.hurry()
        self._retries.close()
        for task in tuple(self._opening):
            task.cancel()
        self._drop(tuple(self._slots))
        while running := self._tasks | self._closing.tasks:
            await asyncio.wait(running)
        self._thread.close()

    def functions_changed(self, path: Path) -> None:
        """Ask the engine of a file again which functions it has."""
        slot = self._slots.get(path)
        if slot is None:
            if self._turn.locked():
                self._changed_early.add(path)
            return
        # A newer version may be on its way, and it may be the one that spoke.
        slot.changed = True
        record = slot.record
        if record is not None and record.engine is not None:
            self._ask_again(slot, record, record.engine)

    def _ask_again(self, slot: Slot, record: EngineRecord, engine: IFunctionEngine) -> None:
        try:
            functions = functions_of(engine)
            slot.watch(engine)
        except Exception:  # noqa: BLE001 - the plugin boundary
            _log.exception("engine %s could not say which functions it has", record.engine_id)
        else:
            failed = record.state is EngineState.FAILED
            if failed:
                self._serves_again(slot, record)
            self._catalog.put(record, functions)
            if failed:
                self.news.add(Event.MENDED, record)
            self.news.look()

    def engine_failed(self, record: EngineRecord, reason: str, cause: BaseException | None = None) -> None:
        """Withdraw what an engine offers that says that it cannot serve any more."""
        slot = self._slots.get(record.path) if record.path is not None else None
        if slot is None or slot.record is not record or record.engine is None:
            return  # it does not serve (yet, or any more)
        if (record.state, record.reason) == (EngineState.FAILED, reason):
            return  # an engine that tries again says so each time
        if record.state is not EngineState.FAILED:
            slot.before = record.state, record.reason
        with suppress(Exception):  # the plugin boundary; what was watched stays watched
            slot.watch(record.engine)
        entries = self._catalog.entries_of(record.engine_id)
        if record.declared is None and entries:
            record.declared = entries[0].signature
        record.withdrawn = record.withdrawn or tuple(entry.signature for entry in entries)
        record.move(EngineState.FAILED, reason)
        record.traceback = self._loader.traceback_of(cause) if cause is not None else ""
        hint = f"it is tried again when a file of its own is saved; {_TRY}"
        found = Diagnostic(str(slot.path), 0, 0, Severity.ERROR, _CANNOT_SERVE, reason, hint)
        record.diagnostics = (*without(_CANNOT_SERVE, record.diagnostics), found)
        self._catalog.put(record, ())
        self.news.look()

    def engine_opening(self, path: Path, doing: str) -> None:
        """Show what the engine of a file does that is being opened."""
        slot = self._slots.get(path)
        record = slot.record if slot is not None else None
        self._take_long.add(path)
        if record is not None and record.state is EngineState.LOADING and record.reason != doing:
            record.reason = doing
            self._catalog.put_record(record)

    def _serves_again(self, slot: Slot, record: EngineRecord) -> None:
        record.move(EngineState.READY)
        if slot.before[0] is EngineState.STALE:
            record.move(*slot.before)
        record.traceback, record.withdrawn = "", ()
        record.diagnostics = without(_CANNOT_SERVE, record.diagnostics)

    def _was_there(self, path: Path) -> bool:
        slot = self._slots.get(path)
        return slot is not None and slot.record is not None

    def _place(
        self, prints: Mapping[Path, Fingerprint], loaded: Iterable[tuple[Path, Loaded | None]]
    ) -> None:
        """Put what was loaded into the catalog."""
        ready: list[tuple[Slot, Loaded]] = []
        vanished: list[Path] = []
        for path, new in loaded:
            if new is None:
                vanished.append(path)
                continue
            slot = self._slots.setdefault(path, Slot(path, prints[path]))
            slot.fingerprint = prints[path]
            slot.generation += 1
            self._retries.stop(path)
            slot.unmade = new.engine is None
            slot.changed = path in self._changed_early
            if new.watched or new.engine is not None:
                slot.watch_with_former(new.watched)
            if new.engine is None:
                self._failed(slot, new.record)
            elif _opens_at_once(new.engine):
                slot.watched = new.watched
                self._ready(slot, new)
                ready.append((slot, new))
            else:
                self._open_later(slot, new)
        self._serve(ready)
        self._changed_early.clear()
        self._drop(vanished)

    def _serve(self, ready: Sequence[tuple[Slot, Loaded]]) -> None:
        """Let the versions that are ready take over, all in one step."""
        self._catalog.update([(new.record, new.functions) for _, new in ready])
        for slot, new in ready:
            old, slot.record, slot.coming = slot.record, new.record, None
            self.news.add(_what_came(old), new.record)
            self._retries.forget(slot.path)
            if old is not None:
                self._closing.let_go(old)
            if slot.changed and new.engine is not None:
                self._ask_again(slot, new.record, new.engine)

    def _ready(self, slot: Slot, new: Loaded) -> None:
        self._ids.claim(slot, new.record)
        new.record.move(EngineState.READY)
        slot.coming = new.record

    def _failed(self, slot: Slot, record: EngineRecord) -> None:
        """The new version cannot serve: the old one stays as *stale*, or the failure is shown."""
        old = slot.record
        if old is not None and old.engine is not None and old.state is not EngineState.FAILED:
            old.move(EngineState.STALE, record.reason)
            old.rejected = record.declared or record.in_doubt
            old.diagnostics = (*record.diagnostics, *of_ids(old.diagnostics))
            old.traceback = record.traceback
            self._catalog.put_record(old)
        else:
            self._show(slot, record)
            if old is not None and old.engine is not None:
                self._closing.let_go(old)

    def _show(self, slot: Slot, record: EngineRecord) -> None:
        """Show a version that cannot serve, or not yet."""
        self._ids.claim(slot, record)
        slot.record = record
        self._catalog.put(record, ())

    def _open_later(self, slot: Slot, new: Loaded) -> None:
        if slot.record is None or slot.record.engine is None:
            self._show(slot, replace(new.record, engine=None))
        task = self._own(self._open(slot, new, slot.generation))
        self._opening[task] = slot.path
        task.add_done_callback(self._has_opened)

    async def _open(self, slot: Slot, new: Loaded, generation: int) -> None:
        engine = new.engine
        if engine is None:
            raise ValueError("an engine that failed to load cannot be opened")
        try:
            await within(engine.open(), self._patience(engine), f"open() of {new.record.kind}")
            functions, watched = functions_of(engine), watched_now(engine, new.watched)
        except BaseException as error:
            if isinstance(error, Exception) and self._is_current(slot, generation):
                with suppress(Exception):  # the plugin boundary; what was watched stays watched
                    slot.watched |= watched_now(engine, slot.watched)
            await self._closing.close_quietly(new.record)
            if not isinstance(error, Exception):
                raise
            if self._is_current(slot, generation):
                self._failed(slot, self._open_failure(slot, engine, new.record, error))
                self._retries.later(slot.path)
                self.news.look()
            return
        if self._is_current(slot, generation):
            new.functions, slot.watched, slot.changed = functions, watched, False
            self._ready(slot, new)
            self._serve([(slot, new)])
        else:
            await self._closing.close_quietly(new.record)

    def _try_again(self, path: Path) -> None:
        slot = self._slots.get(path)
        if slot is not None:
            self._own(self.update({path: slot.fingerprint}))

    def _patience(self, engine: IFunctionEngine) -> float:
        return getattr(engine, "open_seconds", None) or self._open_timeout

    def _open_failure(
        self, slot: Slot, engine: IFunctionEngine, record: EngineRecord, error: Exception
    ) -> EngineRecord:
        timed_out = isinstance(error, Impatient)
        text = f"the engine did not open within {self._patience(engine):g} s"
        found = Diagnostic(
            str(slot.path), 0, 0, Severity.ERROR, "open-failed",
            text if timed_out else self._loader.explain(error),
            f"it is tried again when a file of its own is saved, and from time to time; {_TRY}",
        )  # fmt: skip
        diagnostics = (*without(FAILED_BEFORE, record.diagnostics), found)
        return replace(
            record,
            engine=None,
            state=EngineState.FAILED,
            reason=self._loader.safe(found.message),
            diagnostics=diagnostics,
            traceback=self._loader.traceback_of(error),
        )

    def _has_opened(self, task: asyncio.Task[None]) -> None:
        path = self._opening.pop(task)
        if path in self._take_long and path not in self._opening.values():
            self._take_long.discard(path)

    def _is_current(self, slot: Slot, generation: int) -> bool:
        return self._slots.get(slot.path) is slot and slot.generation == generation

    def _drop(self, paths: Iterable[Path]) -> None:
        for path in paths:
            slot = self._slots.get(path)
            if slot is None:
                continue
            slot.generation += 1
            if slot.record is not None:
                self.news.add(Event.REMOVED, slot.record)
                self._catalog.remove(slot.record.engine_id)
                self._closing.let_go(slot.record)
                slot.record = None
            self._retries.forget(path)
            self._ids.release(slot)
            del self._slots[path]

    def _own(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _opens_at_once(engine: IFunctionEngine) -> bool:
    return isinstance(engine, AbstractFunctionEngine) and engine.opens_at_once


def _what_came(old: EngineRecord | None) -> Event:
    """What it is that a version serves now, after the one that was shown."""
    if old is None or old.state is EngineState.LOADING:
        return Event.LOADED
    return Event.RELOADED if old.state in (EngineState.READY, EngineState.CONFLICT) else Event.MENDED
