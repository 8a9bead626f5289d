"""The engines that a program adds by hand: they have no file, and end with the host at the latest."""

from __future__ import annotations

import logging
from collections.abc import Callable

from enginehost.catalog import Catalog, EngineRecord
from enginehost.engine import EngineContext, EngineState, IFunctionEngine, no_sessions
from enginehost.loader import Services, functions_of

_log = logging.getLogger("enginehost.host")


class AddedEngines:
    """Opens engines, shows them in ``catalog``, and closes them.

    ``services`` are what an engine is given that has none yet; ``changed`` is called when one has come or
    gone.
    """

    def __init__(self, catalog: Catalog, services: Services, changed: Callable[[], None]) -> None:
        self._catalog = catalog
        self._services = services
        self._changed = changed
        self._records: dict[str, EngineRecord] = {}

    async def add(self, record: EngineRecord, engine: IFunctionEngine) -> None:
        """Raises what the engine's ``open`` raises, and ``ValueError`` for an id that is taken."""
        if record.engine_id in self._catalog.records:
            raise ValueError(f"there is an engine with the id {record.engine_id!r} already")
        context = getattr(engine, "context", None)
        if isinstance(context, EngineContext) and context.agents is no_sessions:
            engine.context = self._services.given_to(context)
        try:
            await engine.open()
            functions = functions_of(engine)
        except BaseException:
            await engine.close()
            raise
        record.engine = engine
        if record.state is not EngineState.READY:
            record.move(EngineState.READY)
        self._records[record.engine_id] = record
        self._catalog.put(record, functions)
        self._changed()

    async def remove(self, engine_id: str) -> None:
        """Take one out and close it. Raises ``KeyError``, and what its ``close`` raises."""
        record = self._records.pop(engine_id)
        self._catalog.remove(engine_id)
        self._changed()
        record.move(EngineState.CLOSING)
        if record.engine is not None:
            await record.engine.close()

    async def close(self) -> None:
        """Remove all that are left."""
        for engine_id in tuple(self._records):
            try:
                await self.remove(engine_id)
            except Exception:  # noqa: BLE001 - the plugin boundary: one engine's close must not stop the others
                _log.exception("engine %s did not close cleanly", engine_id)
