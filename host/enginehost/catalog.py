"""The functions that can be called now, by name, and the engines, by id.

One catalog has one owner (the host) and changes only on its event loop. Readers need no lock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehost.diagnostics import Diagnostic, Severity
from enginehost.engine import TRANSITIONS, EngineState, Function, IFunctionEngine
from enginehost.near_names import NearNames
from enginehost.signature import UNREAD, FunctionSignature

if TYPE_CHECKING:
    from enginehost.runtime import Runtime

NOTHING_READ = FunctionSignature(UNREAD, tags=(UNREAD,))
"""What is known of a file that could not be read, for the policy alone."""

_log = logging.getLogger("enginehost.catalog")


_LONGEST_TROUBLE = 500


@dataclass(slots=True, eq=False)
class EngineRecord:
    """One engine (one smss file): its state with the reason, and what was found in its file.

    ``kind`` is the alias under which its class is registered, or the text of ``ENGINE_CLASS`` where
    nobody provides it. ``source`` orders conflicts: the path, or the id of an engine without a file.
    """

    engine_id: str
    kind: str
    display_name: str = ""
    path: Path | None = None
    state: EngineState = EngineState.LOADING
    reason: str = ""
    since: float = field(default_factory=time.time)
    diagnostics: tuple[Diagnostic, ...] = ()
    traceback: str = ""
    """Where the author's code raised that for which the engine is failed or stale; for the log alone."""
    engine: IFunctionEngine | None = None
    is_model: bool = False
    """Whether its class is one of models: it offers no function, and :meth:`Host.llm
    <enginehost.host.Host.llm>` talks to it."""
    declared: FunctionSignature | None = None
    """What the file declares, also while the engine cannot serve it."""
    in_doubt: FunctionSignature = NOTHING_READ
    """What can be read of it where nothing is ``declared``, for the policy alone."""
    rejected: FunctionSignature | None = None
    """What the newest version of the file declares, where that could not take over: it has the findings."""
    shares_id_of: str = ""
    """The id that the file declares, where another file has it."""
    withdrawn: tuple[FunctionSignature, ...] = ()
    """What an engine offered that says that it cannot serve any more."""
    running: int = 0
    """Calls that run on this version now."""
    idle: Callable[[], None] | None = None
    """Called when ``running`` falls to 0, if somebody waits for that."""

    @property
    def source(self) -> str:
        """What orders two engines that declare one function name."""
        return self.path.as_posix() if self.path else self.engine_id

    @property
    def promised(self) -> list[FunctionSignature]:
        """What the engine declares, or offered until it could not serve any more."""
        return [one for one in (self.declared, *self.withdrawn) if one is not None]

    @property
    def title(self) -> str:
        """What people call it: the name of its file, or its id."""
        return self.path.name if self.path else self.engine_id

    @property
    def shown_reason(self) -> str:
        """Why it is in its state, or what hinders it while it serves (``AbstractFunctionEngine.trouble``)."""
        return self.reason or _trouble(self.engine)

    def move(self, state: EngineState, reason: str = "") -> None:
        """Go to ``state``. A transition that the table does not have is a bug of the host."""
        if state is not self.state and state not in TRANSITIONS[self.state]:
            raise AssertionError(f"engine {self.engine_id}: {self.state} may not become {state}")
        self.state, self.reason, self.since = state, reason, time.time()

    def to_json(self) -> dict[str, Any]:
        """What a face shows of the engine (no path: see :attr:`path`)."""
        model = {"model": str(getattr(self.engine, "default_model", ""))} if self.is_model else {}
        return {
            "id": self.engine_id,
            "kind": self.kind,
            "serves": "model" if self.is_model else "functions",
            "display_name": self.display_name,
            "state": str(self.state),
            "reason": self.shown_reason,
            "since": datetime.fromtimestamp(self.since, UTC).isoformat(timespec="milliseconds"),
            **model,
        }


def _trouble(engine: IFunctionEngine | None) -> str:
    """What an engine says that hinders it (see ``AbstractFunctionEngine.trouble``)."""
    try:
        return str(getattr(engine, "trouble", ""))[:_LONGEST_TROUBLE]
    except Exception:  # noqa: BLE001 - the plugin boundary
        return ""


@dataclass(slots=True, eq=False)
class Entry:
    """One function in the catalog, with the engine it comes from."""

    function: Function
    record: EngineRecord
    runtime: Runtime | None = None
    """What the call path keeps for it; made at the first call (see ``invoke.py``)."""

    @property
    def signature(self) -> FunctionSignature:
        """The function's signature."""
        return self.function.signature

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.signature.name


@dataclass(frozen=True, slots=True)
class Conflict:
    """A function that is not served because another engine has its name."""

    name: str
    kept_entry: Entry
    refused_entry: Entry

    @property
    def kept(self) -> EngineRecord:
        """The engine that has the name."""
        return self.kept_entry.record

    @property
    def refused(self) -> EngineRecord:
        """The engine that does not serve the function."""
        return self.refused_entry.record

    def diagnostic(self, keeper: str = "") -> Diagnostic:
        """The conflict as a finding in the refused file; ``keeper`` is what to call the other one."""
        message = f"{self.name!r} is also declared by {keeper or self.kept.source}, which keeps the name"
        hint = "give one of them another FUNCTION_NAME"
        return Diagnostic(self.refused.source, 0, 0, Severity.WARNING, "name-conflict", message, hint)


class ChangeKind(StrEnum):
    """What happened to a function."""

    ADDED = "added"
    REPLACED = "replaced"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """One event of the catalog: ``entry`` is the new one (the old one for *removed*)."""

    kind: ChangeKind
    entry: Entry


Listener = Callable[[Sequence[Change]], None]
"""Hears of changes, on the host's event loop; it must not block."""


OTHERS = "databus"
"""The kind of the engines that stand for what other hosts on the databus offer."""


class Catalog:
    """Functions by name and engines by id, with events.

    Where two engines declare one name, the one whose ``source`` sorts first keeps it, whatever the
    order of arrival; the other is a conflict and takes over when the first goes.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._claims: dict[str, list[Entry]] = {}
        self._contested: set[str] = set()
        """Names with more than one claim."""
        self._by_engine: dict[str, dict[str, Entry]] = {}
        self._records: dict[str, EngineRecord] = {}
        self._declared: dict[str, frozenset[str]] = {}
        """The names that each engine promises, by the engine's id."""
        self._declaring: dict[str, list[EngineRecord]] = {}
        self._aliases: dict[str, str] = {}
        """Further names of functions, which count where no function has that name itself."""
        self._tails: dict[str, dict[str, None]] = {}
        """Names with a dot by what stands behind it: those of other hosts' functions."""
        self._near: NearNames | None = None
        """Made when somebody asks for a name that there is not."""
        self._listeners: list[Listener] = []
        self.version = 0
        """Counts changes; faces cache what they derive by it."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """All functions, sorted by name."""
        return iter([self._entries[name] for name in sorted(self._entries)])

    def get(self, name: str) -> Entry | None:
        """The function of this name, or else the one that has it as a further name."""
        entry = self._entries.get(name)
        if entry is None and name in self._aliases:
            entry = self._entries.get(self._aliases[name])
        return entry

    def alias(self, name: str, target: str | None) -> None:
        """Make ``name`` a further name of the function ``target``, or of none any more.

        It shows in no list, and a function that has the name itself goes first.
        """
        if target is None:
            self._aliases.pop(name, None)
        else:
            self._aliases[name] = target
        self.version += 1
        self._near = None

    def short_names(self) -> dict[str, str]:
        """The further name of each function that has one, where no function has that name itself."""
        there = self._entries
        return {one: name for name, one in self._aliases.items() if name not in there and one in there}

    def target(self, name: str) -> str | None:
        """What ``name`` is a further name of, whether that can be called now or not."""
        return self._aliases.get(name)

    def nearest(self, name: str, visible: Callable[[Entry], bool]) -> list[str]:
        """Up to three names of ``visible`` functions that look like ``name``.

        What it costs does not grow with the number of names.
        """
        if self._near is None:
            further = (one for one, target in self._aliases.items() if target in self._entries)
            self._near = NearNames({*self._entries, *further})
        seen = self._is_visible(visible)
        tails = [one for one in self._tails.get(name, ()) if seen(one)]
        near = [one for one in self._near.near(name, seen) if one not in tails]
        return [*tails, *near][:3]

    def _is_visible(self, visible: Callable[[Entry], bool]) -> Callable[[str], bool]:
        def asked(name: str) -> bool:
            entry = self.get(name)
            return entry is not None and visible(entry)

        return asked

    def declaring(self, name: str) -> Sequence[EngineRecord]:
        """The engines that declare, or had, a function of this name, whether it can be called or not."""
        return self._declaring.get(name, ())

    @property
    def records(self) -> Mapping[str, EngineRecord]:
        """The engines by id, those that failed too."""
        return self._records

    def diagnostics(self) -> list[Diagnostic]:
        """What was found in the files of all engines, and the conflicts between them."""
        told = [record for record in self._records.values() if record.diagnostics]
        found = [
            one for record in sorted(told, key=lambda record: record.source) for one in record.diagnostics
        ]
        return found + [conflict.diagnostic() for conflict in self.conflicts()]

    def entries_of(self, engine_id: str) -> Sequence[Entry]:
        """The functions that the engine declares, refused ones included."""
        return tuple(self._by_engine.get(engine_id, {}).values())

    def conflicts(self) -> list[Conflict]:
        """Functions that are not served because another engine has their name."""
        return [
            Conflict(name, self._claims[name][0], loser)
            for name in sorted(self._contested)
            for loser in self._claims[name][1:]
        ]

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` at every change, until the returned function is called."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def put_record(self, record: EngineRecord) -> None:
        """Show an engine (also one that cannot serve) without touching functions."""
        self._show(record)
        self.version += 1

    def put(self, record: EngineRecord, functions: Iterable[Function]) -> None:
        """Show ``record`` and exactly these functions of its engine, in one step."""
        self.update([(record, functions)])

    def rename(self, record: EngineRecord, engine_id: str) -> None:
        """Show ``record`` under another id that is free; its functions stay as they are."""
        if self._records.get(record.engine_id) is record:
            self._hide(record.engine_id)
            self._show(record, engine_id)
            if entries := self._by_engine.pop(record.engine_id, None):
                self._by_engine[engine_id] = entries
            self.version += 1
        record.engine_id = engine_id

    def update(self, batch: Iterable[tuple[EngineRecord, Iterable[Function]]]) -> None:
        """:meth:`put` for many engines with one event. All or nothing, where functions cannot be told."""
        touched: dict[str, Entry | None] = {}
        for record, entries in [(record, self._entries_for(record, told)) for record, told in batch]:
            self._show(record)
            self._withdraw(record.engine_id, touched)
            if entries:
                self._by_engine[record.engine_id] = entries
            for entry in entries.values():
                self._claim(entry, touched)
        self._settle(touched)

    def amend(self, record: EngineRecord, functions: Iterable[Function], gone: Iterable[str]) -> None:
        """Add or replace these functions of an engine and take out those named ``gone``, in one step.

        What it costs does not grow with the engine's other functions. The engine is shown if it was not.
        """
        if self._records.get(record.engine_id) is not record:
            self._show(record)
        mine = self._by_engine.setdefault(record.engine_id, {})
        touched: dict[str, Entry | None] = {}
        for name in gone:
            self._drop(mine.pop(name), touched)
        for function in functions:
            entry = Entry(function, record)
            if entry.name in mine:
                self._drop(mine[entry.name], touched)
            mine[entry.name] = entry
            self._claim(entry, touched)
        self._settle(touched)

    def remove(self, engine_id: str) -> EngineRecord | None:
        """Take an engine and its functions out; the record, if there was one."""
        record = self._hide(engine_id)
        touched: dict[str, Entry | None] = {}
        self._withdraw(engine_id, touched)
        self._settle(touched)
        return record

    def _show(self, record: EngineRecord, engine_id: str | None = None) -> None:
        engine_id = engine_id or record.engine_id
        self._hide(engine_id)
        self._records[engine_id] = record
        self._declared[engine_id] = names = frozenset(one.name for one in record.promised)
        for name in names:
            self._declaring.setdefault(name, []).append(record)

    def _hide(self, engine_id: str) -> EngineRecord | None:
        record = self._records.pop(engine_id, None)
        for name in self._declared.pop(engine_id, ()):
            if record is not None:
                self._declaring[name].remove(record)
            if not self._declaring[name]:
                del self._declaring[name]
        return record

    def _entries_for(self, record: EngineRecord, functions: Iterable[Function]) -> dict[str, Entry]:
        """An entry for each function; an unchanged one keeps its own, with its limits' state."""
        known = self._by_engine.get(record.engine_id, {})
        entries: dict[str, Entry] = {}
        for function in functions:
            name = function.signature.name
            old = known.get(name)
            same = old is not None and old.record is record and old.function == function
            entries[name] = old if old is not None and same else Entry(function, record)
        return entries

    def _withdraw(self, engine_id: str, touched: dict[str, Entry | None]) -> None:
        for entry in self._by_engine.pop(engine_id, {}).values():
            self._drop(entry, touched)

    def _claim(self, entry: Entry, touched: dict[str, Entry | None]) -> None:
        touched.setdefault(entry.name, self._entries.get(entry.name))
        claims = self._claims.setdefault(entry.name, [])
        claims.append(entry)
        if len(claims) > 1:
            claims.sort(key=lambda claim: claim.record.source)

    def _drop(self, entry: Entry, touched: dict[str, Entry | None]) -> None:
        touched.setdefault(entry.name, self._entries.get(entry.name))
        claims = self._claims[entry.name]
        claims.remove(entry)
        if not claims:
            del self._claims[entry.name]

    def _settle(self, touched: Mapping[str, Entry | None]) -> None:
        self.version += 1
        changes: list[Change] = []
        for name, before in touched.items():
            claims = self._claims.get(name)
            after = claims[0] if claims else None
            (self._contested.add if claims and len(claims) > 1 else self._contested.discard)(name)
            if after is before:
                continue
            if before is not None and after is None:
                del self._entries[name]
                self._forget_tail(name)
                changes.append(Change(ChangeKind.REMOVED, before))
            elif after is not None:
                self._entries[name] = after
                if "." in name:
                    self._tails.setdefault(name.rpartition(".")[2], {})[name] = None
                changes.append(Change(ChangeKind.REPLACED if before else ChangeKind.ADDED, after))
        for name in touched:
            for claim in self._claims.get(name, ()):
                self._mark(claim.record)
        if any(change.kind is not ChangeKind.REPLACED for change in changes):
            self._near = None
        if changes:
            for listener in tuple(self._listeners):
                try:
                    listener(changes)
                except Exception:  # noqa: BLE001 - one face that fails must not take the others the news
                    _log.exception("a listener of the catalog failed")

    def _forget_tail(self, name: str) -> None:
        tail = name.rpartition(".")[2]
        names = self._tails.get(tail)
        if names is not None:
            names.pop(name, None)
            if not names:
                del self._tails[tail]

    def _mark(self, record: EngineRecord) -> None:
        """Whether an engine that could serve has lost all its names, or has one of them again."""
        if record.state not in (EngineState.READY, EngineState.CONFLICT):
            return
        mine = self._by_engine.get(record.engine_id, {}).values()
        if any(self._entries.get(entry.name) is entry for entry in mine):
            if record.state is EngineState.CONFLICT:
                record.move(EngineState.READY)
        elif mine:
            first = next(iter(mine)).name
            keeper = self._claims[first][0].record
            reason = f"the name {first!r} is taken: {keeper.title} declares it too, and keeps it"
            if (record.state, record.reason) != (EngineState.CONFLICT, reason):
                record.move(EngineState.CONFLICT, reason)
