"""The model engines of a host: found by name, each with what the service keeps for it."""

from __future__ import annotations

import asyncio
import difflib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from enginehost.breaker import Breaker
from enginehost.catalog import Catalog, EngineRecord
from enginehost.engine import EngineState
from enginehost.errors import EngineHostError, EngineUnavailable, InvalidRequest
from enginehost.limits import Gate, TokenBucket
from enginehost.llm.config import ModelConfig
from enginehost.llm.counting import METRICS, Counts, rows
from enginehost.llm.model import AbstractModelEngine, IModelEngine
from enginehost.metrics import Row

_SERVES = (EngineState.READY, EngineState.STALE)
_MOST_NAMED = 10
_LIST_SECONDS = 15.0
_LOOK_AGAIN_SECONDS = 10.0
"""How old a list of ids is at least before a miss has it asked for again."""

_log = logging.getLogger("enginehost.llm")


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model engine as people see it. ``model`` is what its file names, perhaps a part of an id."""

    engine_id: str
    name: str
    kind: str
    state: str
    model: str


class Served:
    """One version of a model engine, with its breaker, its limits and the ids that its provider lists."""

    def __init__(self, record: EngineRecord, engine: IModelEngine) -> None:
        self.record = record
        self.engine = engine
        self.name = record.display_name or record.engine_id
        config = getattr(engine, "config", None)
        self.config = config if isinstance(config, ModelConfig) else ModelConfig()
        limits = engine.context.limits
        self.timeout = limits.timeout
        self.gate = Gate(limits.max_concurrency, limits.queue_limit) if limits.max_concurrency else None
        self.bucket = TokenBucket(limits.rate, limits.burst) if limits.rate else None
        self.breaker = Breaker(self.name, self.config.breaker_failures, self.config.breaker_seconds)
        self._ids: Sequence[str] = ()
        self._listed = float("-inf")
        self._listing = asyncio.Lock()
        """Of many requests at once, one asks for the list."""

    async def enter(self) -> None:
        """Take a place. Raises :class:`~enginehost.errors.Overloaded`."""
        if self.bucket is not None:
            self.bucket.take(self.name, time.monotonic())
        if self.gate is not None and not self.gate.enter_now():
            await self.gate.enter(self.name)
        self.record.running += 1

    def leave(self) -> None:
        """Give it back."""
        if self.gate is not None:
            self.gate.leave()
        self.record.running -= 1
        if self.record.idle is not None and self.record.running == 0:
            self.record.idle()

    async def model_id(self, text: str) -> str:
        """The id that ``text`` means (empty: what the file names). Raises :class:`InvalidRequest`."""
        wanted = text or self.engine.default_model
        if not self.config.list_models:
            return self._named(wanted)
        if wanted and wanted in self._ids:
            return wanted
        async with self._listing:
            if time.monotonic() - self._listed > _LOOK_AGAIN_SECONDS:
                self._ids, self._listed = await self._list(), time.monotonic()
        if not self._ids:  # a provider that lists nothing judges itself
            return self._named(wanted)
        return self._among(wanted)

    def _named(self, wanted: str) -> str:
        """An id that nobody lists; an engine that never lists any may go without."""
        if not wanted and type(self.engine).models is not AbstractModelEngine.models:
            raise InvalidRequest(f"{self.name} names no model: write MODEL in its file, or say which")
        return wanted

    def _among(self, wanted: str) -> str:
        if wanted in self._ids:
            return wanted
        found = [one for one in self._ids if wanted.casefold() in one.casefold()]
        if len(found) == 1:
            return found[0]
        if found:
            text = f"{wanted!r} is a part of several models of {self.name}: {_few(found)}"
            text = (
                text if wanted else f"{self.name} names no model, and its provider has several: {_few(found)}"
            )
            raise InvalidRequest(text, detail={"models": found[:_MOST_NAMED]})
        near = difflib.get_close_matches(wanted, self._ids, n=3) or list(self._ids[:3])
        raise InvalidRequest(
            f"{self.name} has no model {wanted[:200]!r}; it has {_few(near, len(self._ids))}"
            " (LIST_MODELS = false sends an id that is not listed)",
            detail={"models": near},
        )

    async def _list(self) -> Sequence[str]:
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                return tuple(await self.engine.models())
        except EngineHostError as error:
            _log.info("%s lists no models: %s", self.name, error.message)
        except TimeoutError:
            _log.warning("%s did not list its models within %g s", self.name, _LIST_SECONDS)
        except Exception:  # noqa: BLE001 - the plugin boundary
            _log.exception("%s could not list its models", self.name)
        return ()


def _few(names: Sequence[str], of: int = 0) -> str:
    more = max(of, len(names)) - min(len(names), _MOST_NAMED)
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more else "")


class Models:
    """Finds model engines in a catalog. Lives on the host's event loop."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._served: dict[str, Served] = {}
        self.counts: dict[tuple[str, str], Counts] = {}
        """By engine id and model; they outlive a reload."""

    def list(self) -> list[ModelInfo]:
        """All model engines, by name."""
        return sorted(
            (
                ModelInfo(
                    record.engine_id,
                    record.display_name or record.engine_id,
                    record.kind,
                    str(record.state),
                    _default(record),
                )
                for record in self._records()
            ),
            key=lambda info: (info.name, info.engine_id),
        )

    def find(self, name: str = "") -> Served:
        """The engine whose id, name or alias is ``name``; empty: the only one there is.

        Else the only one whose file names a model of which ``name`` is a part. Raises
        :class:`InvalidRequest` where there is none or several, ``EngineUnavailable`` where it cannot serve.
        """
        record = self._record(name)
        engine = record.engine
        if record.state not in _SERVES or not isinstance(engine, IModelEngine):
            reason = f": {record.reason}" if record.reason else ""
            text = f"the model {name or record.title} cannot answer, its engine is {record.state}{reason}"
            raise EngineUnavailable(text, state=str(record.state), reason=record.reason)
        served = self._served.get(record.engine_id)
        if served is None or served.engine is not engine:
            served = self._served[record.engine_id] = Served(record, engine)
        return served

    def count(self, engine_id: str, model: str) -> Counts:
        """The counters of a model."""
        return self.counts.setdefault((engine_id, model), Counts())

    def metrics(self) -> tuple[Mapping[str, tuple[str, str]], Iterable[Row]]:
        """What :func:`enginehost.metrics.render` takes; the rows are read on any thread."""
        return METRICS, rows(dict(self.counts))

    def _records(self) -> Iterator[EngineRecord]:
        return (record for record in list(self._catalog.records.values()) if record.is_model)

    def _record(self, name: str) -> EngineRecord:
        every = list(self._records())
        if not name:
            return _only(every, "there is no model engine", "there are several model engines; name one")
        if (exact := self._catalog.records.get(name)) and exact.is_model:
            return exact
        folded = name.casefold()
        for found in (
            [one for one in every if folded in (one.display_name.casefold(), _alias(one).casefold())],
            [one for one in every if folded in _default(one).casefold()],
        ):
            if found:
                return _only(found, "", f"several model engines are called {name!r}; use the id")
        names = [one.display_name or one.engine_id for one in every]
        verb = "is" if len(names) == 1 else "are"
        known = f"there {verb} {_few(names)}" if names else "there is none in the folder"
        raise InvalidRequest(
            f"no model engine is called {name[:200]!r}; {known}", detail={"models": names[:10]}
        )


def _only(records: Sequence[EngineRecord], none: str, several: str) -> EngineRecord:
    if len(records) == 1:
        return records[0]
    if not records:
        raise InvalidRequest(none)
    ids = [record.engine_id for record in records]
    raise InvalidRequest(f"{several}: {_few(ids)}", detail={"models": ids[:_MOST_NAMED]})


def _alias(record: EngineRecord) -> str:
    return record.engine.context.alias if record.engine is not None else ""


def _default(record: EngineRecord) -> str:
    return str(getattr(record.engine, "default_model", ""))
