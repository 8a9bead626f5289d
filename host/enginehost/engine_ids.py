"""Which engine has which id where several files declare one: the first path keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from enginehost.catalog import Catalog, EngineRecord
from enginehost.diagnostics import Diagnostic, Severity, without
from enginehost.folder import SUFFIX
from enginehost.slot import Slot

DUPLICATE_ID = "duplicate-engine-id"


class EngineIds:
    """The ids that files declare and the engines have. ``root``: derived ids name paths below it."""

    def __init__(self, catalog: Catalog, root: Path) -> None:
        self._catalog = catalog
        self._root = root
        self._claims: dict[str, dict[Path, Slot]] = {}

    def claim(self, slot: Slot, record: EngineRecord) -> None:
        """Give ``record`` its id: the declared one for the first path, a derived one for the others."""
        declared = record.engine_id
        if slot.declared_id != declared:
            previous, slot.declared_id = slot.declared_id, declared
            self._claims.setdefault(declared, {})[slot.path] = slot
            self._relabel(declared)  # the version that goes moves along
            self._release(slot, previous)
        self._label(slot, record)

    def release(self, slot: Slot) -> None:
        """Its file is gone: the next path has the id."""
        self._release(slot, slot.declared_id)

    def _release(self, slot: Slot, declared: str) -> None:
        claims = self._claims.get(declared)
        if claims is None:
            return
        claims.pop(slot.path, None)
        if claims:
            self._relabel(declared)
        else:
            del self._claims[declared]

    def _relabel(self, declared: str) -> None:
        """Give every engine that declares the id the one that it should have now."""
        claims = self._claims[declared]
        first, *others = sorted(claims)
        for path in (*others, first):  # the id itself must be free before the first takes it
            slot = claims[path]
            for record in (slot.record, slot.coming):
                if record is not None:
                    self._label(slot, record)

    def _label(self, slot: Slot, record: EngineRecord) -> None:
        """The id and the warning that fit the slot's place among those who declare its id."""
        declared = slot.declared_id
        record.diagnostics = without(DUPLICATE_ID, record.diagnostics)
        engine_id, record.shares_id_of = declared, ""
        if (first := min(self._claims[declared])) != slot.path:
            engine_id = f"{declared}~{self._place_of(slot.path)}"
            record.shares_id_of = declared
            record.diagnostics = (*record.diagnostics, duplicate_id(slot.path, declared, first.name))
        shown = self._catalog.records
        while (holder := shown.get(engine_id)) is not None and holder not in (record, slot.record):
            engine_id += "~"  # somebody declares what is derived here
        if engine_id != record.engine_id:
            self._catalog.rename(record, engine_id)

    def _place_of(self, path: Path) -> str:
        inside = path.relative_to(self._root) if path.is_relative_to(self._root) else Path(path.name)
        return inside.as_posix().removesuffix(SUFFIX)


def of_ids(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Those findings that are about ids."""
    return tuple(found for found in diagnostics if found.code == DUPLICATE_ID)


def duplicate_id(path: Path, declared: str, first: str) -> Diagnostic:
    """The finding in a file whose engine id belongs to the file that is called ``first``."""
    message = f"the engine id {declared!r} is also that of {first}, which keeps it"
    hint = "give each file its own ENGINE"
    return Diagnostic(str(path), 0, 0, Severity.WARNING, DUPLICATE_ID, message, hint)
