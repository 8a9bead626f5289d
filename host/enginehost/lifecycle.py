"""The engines of a folder through their lives: load, open, replace, go stale, close.

A new version takes over only when it is ready; the old one serves until then, and the calls that run
on it end on it. Lives on the host's event loop; files are read on one loader thread.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from enginehost.catalog import Catalog, EngineRecord
from enginehost.diagnostics import IN_PROBLEMS, Diagnostic, Severity
from enginehost.engine import AbstractFunctionEngine, EngineState, IFunctionEngine
from enginehost.folder import SUFFIX, Fingerprint, fingerprint
from enginehost.loader import Loaded, Loader, functions_of, watched_by
from enginehost.patience import Impatient, within
from enginehost.retries import Retries

CLOSE_SECONDS = 5.0
"""What an engine may take to close at least: to drain for no time is about calls, not about cleaning up."""

_CHUNK = 256
"""Files read between two looks of the event loop."""

_log = logging.getLogger("enginehost.lifecycle")


@dataclass(slots=True, eq=False)
class Slot:
    """One file and the version of it that serves."""

    path: Path
    fingerprint: Fingerprint
    declared_id: str = ""
    record: EngineRecord | None = None
    """What the catalog shows: the version that serves, or the one that failed."""
    coming: EngineRecord | None = None
    """A version that serves as soon as the catalog has it."""
    watched: dict[Path, Fingerprint | None] = field(default_factory=dict)
    generation: int = 0
    unmade: bool = False
    """Whether the file as it is now gives no engine."""
    changed: bool = False
    """Whether an engine said that its functions changed before it served."""
    before: tuple[EngineState, str] = (EngineState.READY, "")
    """Where the engine was when it said that it cannot serve."""


class Engines:
    """Owns the engines that come from files."""

    def __init__(
        self, catalog: Catalog, loader: Loader, root: Path, *, open_timeout: float, drain_seconds: float
    ) -> None:
        self._root = root
        self._catalog = catalog
        self._loader = loader
        self._open_timeout = open_timeout
        self._drain_seconds = drain_seconds
        self._slots: dict[Path, Slot] = {}
        self._paths_of_id: dict[str, set[Path]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="enginehost-loader")
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
                self._place(changed, await self._load(list(changed)))

    async def opened(self, timeout: float) -> bool:
        """Wait until every engine that is being opened has opened or failed; whether that came in time."""
        if self._opening:
            await asyncio.wait(self._opening, timeout=timeout)
        return not self._opening

    async def close(self) -> None:
        """Close every engine, each given at most the drain time for its running calls."""
        self._retries.close()
        for task in tuple(self._opening):
            task.cancel()
        self._drop(tuple(self._slots))
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
        self._thread.shutdown(wait=False, cancel_futures=True)

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
            functions, slot.watched = functions_of(engine), _watched_now(engine, slot.watched)
        except Exception:  # noqa: BLE001 - the plugin boundary
            _log.exception("engine %s could not say which functions it has", record.engine_id)
        else:
            if record.state is EngineState.FAILED:
                self._serves_again(slot, record)
            self._catalog.put(record, functions)

    def engine_failed(self, record: EngineRecord, reason: str) -> None:
        """Withdraw what an engine offers that says that it cannot serve any more."""
        slot = self._slots.get(record.path) if record.path is not None else None
        if slot is None or slot.record is not record or record.engine is None:
            return  # it does not serve (yet, or any more)
        if record.state is not EngineState.FAILED:
            slot.before = record.state, record.reason
        with suppress(Exception):  # the plugin boundary; what was watched stays watched
            slot.watched = _watched_now(record.engine, slot.watched)
        entries = self._catalog.entries_of(record.engine_id)
        if record.declared is None and entries:
            record.declared = entries[0].signature
        _log.warning("%s: %s", slot.path, reason, extra=IN_PROBLEMS)
        record.move(EngineState.FAILED, reason)
        hint = "mend the cause; a change of the file, or of one that it watches, tries again at once"
        found = Diagnostic(str(slot.path), 0, 0, Severity.ERROR, _CANNOT_SERVE, reason, hint)
        record.diagnostics = (*_without(_CANNOT_SERVE, record), found)
        self._catalog.put(record, ())

    def _serves_again(self, slot: Slot, record: EngineRecord) -> None:
        record.move(EngineState.READY)
        if slot.before[0] is EngineState.STALE:
            record.move(*slot.before)
        record.diagnostics = _without(_CANNOT_SERVE, record)

    async def _load(self, paths: Sequence[Path]) -> list[tuple[Path, Loaded | None]]:
        loop = asyncio.get_running_loop()
        loaded: list[tuple[Path, Loaded | None]] = []
        for start in range(0, len(paths), _CHUNK):
            chunk = paths[start : start + _CHUNK]
            loaded += await loop.run_in_executor(self._thread, self._load_chunk, chunk)
        return loaded

    def _load_chunk(self, paths: Sequence[Path]) -> list[tuple[Path, Loaded | None]]:
        collecting = gc.isenabled()
        # Everything made here stays: the collector would walk it again and again and find nothing.
        gc.disable()
        try:
            return [(path, self._loader.load(path, reloading=self._was_there(path))) for path in paths]
        finally:
            if collecting:
                gc.enable()

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
                slot.watched = _with_former(slot, new.watched)
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
            self._retries.forget(slot.path)
            if old is not None:
                self._let_go(old)
            if slot.changed and new.engine is not None:
                self._ask_again(slot, new.record, new.engine)

    def _claim_id(self, slot: Slot, record: EngineRecord) -> None:
        """Give ``record`` its id: the declared one for the first path, a derived one for the others."""
        declared = record.engine_id
        if slot.declared_id != declared:
            previous, slot.declared_id = slot.declared_id, declared
            self._paths_of_id.setdefault(declared, set()).add(slot.path)
            self._relabel(declared)  # the version that goes moves along
            self._release_id(slot, previous)
        self._label(slot, record)

    def _release_id(self, slot: Slot, declared: str) -> None:
        paths = self._paths_of_id.get(declared)
        if paths is None:
            return
        paths.discard(slot.path)
        if paths:
            self._relabel(declared)
        else:
            del self._paths_of_id[declared]

    def _relabel(self, declared: str) -> None:
        """Give every engine that declares the id the one that it should have now."""
        first, *others = sorted(self._paths_of_id[declared])
        for path in (*others, first):  # the id itself must be free before the first takes it
            slot = self._slots[path]
            for record in (slot.record, slot.coming):
                if record is not None:
                    self._label(slot, record)

    def _label(self, slot: Slot, record: EngineRecord) -> None:
        """The id and the warning that fit the slot's place among those who declare its id."""
        declared = slot.declared_id
        paths = self._paths_of_id[declared]
        record.diagnostics = _without(_DUPLICATE, record)
        engine_id = declared
        if len(paths) > 1 and (first := min(paths)) != slot.path:
            engine_id = f"{declared}~{self._place_of(slot.path)}"
            record.diagnostics = (*record.diagnostics, duplicate_id(slot.path, declared, first))
        shown = self._catalog.records
        while (holder := shown.get(engine_id)) is not None and holder not in (record, slot.record):
            engine_id += "~"  # somebody declares what is derived here
        if engine_id != record.engine_id:
            self._catalog.rename(record, engine_id)

    def _place_of(self, path: Path) -> str:
        inside = path.relative_to(self._root) if path.is_relative_to(self._root) else Path(path.name)
        return inside.as_posix().removesuffix(SUFFIX)

    def _ready(self, slot: Slot, new: Loaded) -> None:
        self._claim_id(slot, new.record)
        new.record.move(EngineState.READY)
        slot.coming = new.record

    def _failed(self, slot: Slot, record: EngineRecord) -> None:
        """The new version cannot serve: the old one stays as *stale*, or the failure is shown."""
        old = slot.record
        if old is None or old.reason != record.reason:
            _log.warning("%s: %s", slot.path, record.reason, extra=IN_PROBLEMS)
        if old is not None and old.engine is not None and old.state is not EngineState.FAILED:
            old.move(EngineState.STALE, record.reason)
            old.diagnostics = record.diagnostics
            self._catalog.put_record(old)
        else:
            self._show(slot, record)
            if old is not None and old.engine is not None:
                self._let_go(old)

    def _show(self, slot: Slot, record: EngineRecord) -> None:
        """Show a version that cannot serve, or not yet."""
        self._claim_id(slot, record)
        slot.record = record
        self._catalog.put(record, ())

    def _open_later(self, slot: Slot, new: Loaded) -> None:
        if slot.record is None or slot.record.engine is None:
            self._show(slot, replace(new.record, engine=None))
        task = self._own(self._open(slot, new, slot.generation))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, slot: Slot, new: Loaded, generation: int) -> None:
        engine = new.engine
        if engine is None:
            raise ValueError("an engine that failed to load cannot be opened")
        try:
            await within(engine.open(), self._open_timeout, f"open() of {new.record.kind}")
            functions, watched = functions_of(engine), _watched_now(engine, new.watched)
        except BaseException as error:
            if isinstance(error, Exception) and self._is_current(slot, generation):
                with suppress(Exception):  # the plugin boundary; what was watched stays watched
                    slot.watched |= _watched_now(engine, slot.watched)
            await self._close_quietly(new.record)
            if not isinstance(error, Exception):
                raise
            if self._is_current(slot, generation):
                self._failed(slot, self._open_failure(slot, new.record, error))
                self._retries.later(slot.path)
            return
        if self._is_current(slot, generation):
            new.functions, slot.watched, slot.changed = functions, watched, False
            self._ready(slot, new)
            self._serve([(slot, new)])
        else:
            await self._close_quietly(new.record)

    def _try_again(self, path: Path) -> None:
        slot = self._slots.get(path)
        if slot is not None:
            self._own(self.update({path: slot.fingerprint}))

    def _open_failure(self, slot: Slot, record: EngineRecord, error: Exception) -> EngineRecord:
        timed_out = isinstance(error, Impatient)
        text = f"the engine did not open within {self._open_timeout:g} s"
        found = Diagnostic(
            str(slot.path), 0, 0, Severity.ERROR, "open-failed",
            text if timed_out else self._loader.explain(error),
            "mend the cause; it is tried again from time to time, and at once when the file is saved",
        )  # fmt: skip
        diagnostics = (*record.diagnostics, found)
        return replace(
            record,
            engine=None,
            state=EngineState.FAILED,
            reason=self._loader.safe(found.message),
            diagnostics=diagnostics,
        )

    def _is_current(self, slot: Slot, generation: int) -> bool:
        return self._slots.get(slot.path) is slot and slot.generation == generation

    def _drop(self, paths: Iterable[Path]) -> None:
        for path in paths:
            slot = self._slots.get(path)
            if slot is None:
                continue
            slot.generation += 1
            if slot.record is not None:
                self._catalog.remove(slot.record.engine_id)
                self._let_go(slot.record)
                slot.record = None
            self._retries.forget(path)
            self._release_id(slot, slot.declared_id)
            del self._slots[path]

    def _let_go(self, record: EngineRecord) -> None:
        """Close a version when its last call has ended, or when the drain time is over."""
        record.move(EngineState.CLOSING)
        if record.engine is not None:
            if record.running == 0 and _closes_at_once(record.engine):
                return
            self._own(self._drain(record))

    async def _drain(self, record: EngineRecord) -> None:
        if record.running:
            idle = asyncio.Event()
            record.idle = idle.set
            try:
                async with asyncio.timeout(self._drain_seconds):
                    await idle.wait()
            except TimeoutError:
                _log.warning("engine %s is closed with %d calls running", record.engine_id, record.running)
        await self._close_quietly(record)

    async def _close_quietly(self, record: EngineRecord) -> None:
        if record.engine is None:
            return
        try:
            await within(
                record.engine.close(), max(self._drain_seconds, CLOSE_SECONDS), f"close() of {record.kind}"
            )
        except Exception:  # noqa: BLE001 - the plugin boundary: one engine's close must not stop the others
            _log.exception("engine %s did not close cleanly", record.engine_id)

    def _own(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


_DUPLICATE = "duplicate-engine-id"
_CANNOT_SERVE = "cannot-serve"


def duplicate_id(path: Path, declared: str, first: Path) -> Diagnostic:
    """The finding in a file whose engine id belongs to the file ``first``."""
    message = f"the engine id {declared!r} is also that of {first.name}, which keeps it"
    hint = "give each file its own ENGINE"
    return Diagnostic(str(path), 0, 0, Severity.WARNING, _DUPLICATE, message, hint)


def _without(code: str, record: EngineRecord) -> tuple[Diagnostic, ...]:
    return tuple(found for found in record.diagnostics if found.code != code)


def _watched_now(
    engine: IFunctionEngine, seen: Mapping[Path, Fingerprint | None]
) -> dict[Path, Fingerprint | None]:
    """The files an engine depends on; former ones as they were seen, so that no change goes unnoticed."""
    return {path: seen.get(path, now) for path, now in watched_by(engine).items()}


def _with_former(slot: Slot, watched: dict[Path, Fingerprint | None]) -> dict[Path, Fingerprint | None]:
    """The files of a version on its way, with those of the one before: any may be the one to be mended."""
    return {path: fingerprint(path) for path in slot.watched if path not in watched} | watched


def _opens_at_once(engine: IFunctionEngine) -> bool:
    return type(engine).open is AbstractFunctionEngine.open


def _closes_at_once(engine: IFunctionEngine) -> bool:
    return type(engine).close is AbstractFunctionEngine.close
