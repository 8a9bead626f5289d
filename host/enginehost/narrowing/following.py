"""The index of a catalog's functions, kept up with it change by change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Context

from enginehost.catalog import Catalog, Change, ChangeKind
from enginehost.narrowing.document import document_of
from enginehost.narrowing.index import Index, Ranked
from enginehost.signature import FunctionSignature

_AT_ONCE = 50
"""Functions that are read on the event loop; more are read on a thread (some 0.1 ms each)."""


class CatalogIndex:
    """Ranks the functions of ``catalog``. Nothing is read before the first query; then what has changed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._index = Index()
        self._changed: dict[str, FunctionSignature | None] = {}
        """By name what the index does not know yet; ``None``: it is gone."""
        self._follows = False
        self._reading: asyncio.Task[None] | None = None

    async def rank(self, query: str) -> Ranked:
        """The functions that fit ``query`` at all, the best first."""
        if not self._follows:
            self._follows = True
            self._catalog.subscribe(self._hear)
            self._changed = {entry.name: entry.signature for entry in self._catalog}
        while self._changed or self._reading is not None:
            if self._reading is None:
                self._reading = asyncio.create_task(self._read(), context=Context())
            await asyncio.shield(self._reading)  # who leaves does not leave the index half read
        return self._index.rank(query)

    async def _read(self) -> None:
        changed, self._changed = self._changed, {}
        try:
            if len(changed) <= _AT_ONCE:
                self._apply(changed)
            else:
                await asyncio.to_thread(self._apply, changed)
        finally:
            self._reading = None

    def _hear(self, changes: Sequence[Change]) -> None:
        for change in changes:
            gone = change.kind is ChangeKind.REMOVED
            self._changed[change.entry.name] = None if gone else change.entry.signature

    def _apply(self, changed: dict[str, FunctionSignature | None]) -> None:
        for name, signature in changed.items():
            if signature is None:
                self._index.remove(name)
            else:
                self._index.put(name, document_of(signature))
