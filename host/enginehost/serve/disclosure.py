"""What callers may read of why an engine does not serve: nothing that names what they may not view."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enginehost.caller import LOCAL, Caller
from enginehost.catalog import Conflict, EngineRecord
from enginehost.diagnostics import Diagnostic
from enginehost.engine import EngineState
from enginehost.engine_ids import DUPLICATE_ID, duplicate_id
from enginehost.signature import FunctionSignature

if TYPE_CHECKING:
    from enginehost.host import Host

_ANOTHER = "another file"
_NAME_TAKEN = f"the name is taken: {_ANOTHER} declares it too, and keeps it"
_NEWEST = "its newest version cannot be loaded"


@dataclass(frozen=True, slots=True)
class Reader:
    """A caller who asks about the engines of a host."""

    host: Host
    caller: Caller

    def may_view(self, signature: FunctionSignature) -> bool:
        """What is not known of the signature counts as what is denied."""
        return self.caller is LOCAL or self.host.policy.may_view(self.caller, signature)

    def may_view_some(self, record: EngineRecord) -> bool:
        """Whether the engine exists for the caller."""
        entries = self.host.catalog.entries_of(record.engine_id)
        declared = [entry.signature for entry in entries] or [record.declared or record.in_doubt]
        return any(map(self.may_view, declared))

    def may_view_all(self, record: EngineRecord) -> bool:
        """Whether what was found in its file, in whichever version, may be told."""
        entries = self.host.catalog.entries_of(record.engine_id)
        declared = [*record.promised, *(entry.signature for entry in entries)] or [record.in_doubt]
        newest = [] if record.rejected is None else [record.rejected]
        return all(map(self.may_view, (*declared, *newest)))

    def reason(self, record: EngineRecord) -> str:
        """Why the engine is in its state, or what hinders it."""
        match record.state:
            case EngineState.STALE if record.rejected and not self.may_view(record.rejected):
                return _NEWEST
            case EngineState.CONFLICT if not self._may_view_keeper(record):
                return _NAME_TAKEN
            case _:
                return record.shown_reason

    def findings(self, record: EngineRecord, conflicts: Iterable[Conflict]) -> list[Diagnostic]:
        """What is wrong with the engine's file, other files included that have its id or its names."""
        own = [self._without_holder(record, found) for found in record.diagnostics]
        return own + [
            one.diagnostic("" if self.may_view(one.kept_entry.signature) else _ANOTHER) for one in conflicts
        ]

    def _may_view_keeper(self, record: EngineRecord) -> bool:
        """The reason names the first function of the engine, and the file that keeps its name."""
        mine = self.host.catalog.entries_of(record.engine_id)
        keeper = self.host.catalog.get(mine[0].name) if mine else None
        return keeper is not None and self.may_view(mine[0].signature) and self.may_view(keeper.signature)

    def _without_holder(self, record: EngineRecord, found: Diagnostic) -> Diagnostic:
        if found.code != DUPLICATE_ID or record.path is None:
            return found
        holder = self.host.catalog.records.get(record.shares_id_of)
        if holder is not None and self.may_view_some(holder):
            return found
        return duplicate_id(record.path, record.shares_id_of, _ANOTHER)
