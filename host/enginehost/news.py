"""What the log says of the engines while the host runs: what came, what went, and each problem once.

What happens within a moment makes one line of a kind: a thousand files that are dropped at once make no
thousand lines.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from enginehost.catalog import Catalog, EngineRecord
from enginehost.diagnostics import IN_PROBLEMS, Diagnostic, Severity
from enginehost.engine import EngineState
from enginehost.tracebacks import RemoteTraceback

MOMENT_SECONDS = 0.2
"""How long news are gathered."""

MOST = 10
"""Names in one line, and lines about problems in one moment."""

_LEVELS = {Severity.ERROR: logging.ERROR, Severity.WARNING: logging.WARNING}

_log = logging.getLogger("enginehost.news")


class Event(StrEnum):
    """What became of an engine, as the log words it."""

    REMOVED = "removed"
    LOADED = "loaded"
    RELOADED = "reloaded"
    MENDED = "serves now:"


class News:
    """Tells the log of the engines of ``catalog``, whose files lie below ``root``.

    Before :meth:`start` nothing is told. Lives on the host's event loop.
    """

    def __init__(self, catalog: Catalog, root: Path) -> None:
        self._catalog = catalog
        self._root = root
        self._sources: list[Callable[[], Iterable[Diagnostic]]] = [catalog.diagnostics]
        self._events: dict[Path, tuple[Event, EngineRecord, str]] = {}
        self._told: set[Diagnostic] = set()
        self._conflicts: set[EngineRecord] = set()
        """Engines whose names others had, at the last look."""
        self._timer: asyncio.TimerHandle | None = None
        self._started = False

    def also(self, problems: Callable[[], Iterable[Diagnostic]]) -> None:
        """Tell of these problems too."""
        self._sources.append(problems)

    def start(self) -> None:
        """From now on tell what happens; the problems that there are at once."""
        self._started = True
        self._note_conflicts()
        self._tell_problems()

    def stop(self) -> None:
        """Tell what is left, then no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._tell()
        self._started = False

    def add(self, event: Event, record: EngineRecord) -> None:
        """Something became of an engine; call it while the catalog has its functions."""
        if self._started and record.path is not None:
            self._events[record.path] = event, record, self._title(record, record.path)
            self.look()

    def look(self) -> None:
        """There may be problems that there were not before."""
        if self._started and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MOMENT_SECONDS, self._tell)

    def _title(self, record: EngineRecord, path: Path) -> str:
        name = path.relative_to(self._root).as_posix() if path.is_relative_to(self._root) else path.name
        functions = [entry.name for entry in self._catalog.entries_of(record.engine_id)]
        return name if functions in ([], [path.stem]) else f"{name} ({_some(functions)})"

    def _tell(self) -> None:
        self._timer = None
        self._note_conflicts()
        events, self._events = self._events, {}
        for kind in Event:
            told = (one for one in events.values() if one[0] is kind and _holds(kind, one[1]))
            titles = sorted(title for _, _, title in told)
            if titles:
                count = f"{len(titles)} engines: " if len(titles) > MOST else ""
                _log.info("%s %s%s", kind, count, _some(titles))
        self._tell_problems()

    def _note_conflicts(self) -> None:
        """An engine that has its name now is news, though nothing became of itself."""
        records = self._catalog.records.values()
        before, self._conflicts = (
            self._conflicts,
            {one for one in records if one.state is EngineState.CONFLICT},
        )
        for one in before - self._conflicts:
            if one.path is not None and one.state is EngineState.READY and one.path not in self._events:
                self._events[one.path] = Event.MENDED, one, self._title(one, one.path)

    def _tell_problems(self) -> None:
        now = dict.fromkeys(problem for source in self._sources for problem in source())
        new = sorted(now.keys() - self._told, key=_in_order)
        records = {str(record.path): record for record in self._catalog.records.values()} if new else {}
        tracebacks: set[str] = set()
        for problem in new[:MOST]:
            _tell_problem(problem, records.get(problem.path), tracebacks)
        if len(new) > MOST:
            _log.warning(
                "and %d problems more: `enginehost doctor` shows them", len(new) - MOST, extra=IN_PROBLEMS
            )
        opening = {str(path) for path in self._opening()} if self._told else set[str]()
        self._told = {*now, *(problem for problem in self._told if problem.path in opening)}

    def _opening(self) -> Iterable[Path | None]:
        """Files that are tried again: what was told of them holds until it is known how that went."""
        records = self._catalog.records.values()
        return [record.path for record in records if record.state is EngineState.LOADING]


def _in_order(problem: Diagnostic) -> tuple[bool, str, int, int]:
    """Errors first, then by place."""
    return problem.severity is not Severity.ERROR, problem.path, problem.line, problem.column


def _holds(event: Event, record: EngineRecord) -> bool:
    """Whether an engine still is what it became; else its problem says more."""
    return event is Event.REMOVED or record.state in (EngineState.READY, EngineState.STALE)


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST
    return f"{', '.join(names[:MOST])} and {more} more" if more > 0 else ", ".join(names)


def _tell_problem(problem: Diagnostic, record: EngineRecord | None, tracebacks: set[str]) -> None:
    where = f"{problem.path}:{problem.line}:{problem.column}" if problem.line else problem.path
    is_error = problem.severity is Severity.ERROR
    stale = is_error and record is not None and record.state is EngineState.STALE
    before = "; the version before stays" if stale else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    traceback = record.traceback if record is not None and is_error else ""
    shown = RemoteTraceback(traceback) if traceback and traceback not in tracebacks else None
    tracebacks.add(traceback)
    extra: Mapping[str, object] = {**IN_PROBLEMS, "problem": problem.to_json()}
    _log.log(
        _LEVELS[problem.severity],
        "%s: %s%s%s",
        where,
        problem.message,
        before,
        hint,
        exc_info=shown,
        extra=extra,
    )
