"""The agents of a host: those of its folder, those that programs register, and the database they share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from enginehost.agents.agent_engine import AgentEngine, agent_behind
from enginehost.agents.contract import AgentSpec
from enginehost.agents.counts import AGENT_METRICS
from enginehost.agents.holders import Place
from enginehost.agents.missing import Surroundings, missing
from enginehost.agents.offers import agent_signature, is_remote_agent
from enginehost.agents.service import AgentService
from enginehost.agents.skills import Skill, read_skills, with_skills
from enginehost.errors import EngineHostError, EngineUnavailable
from enginehost.metrics import Metrics, Row
from enginehost.signature import FunctionSignature
from enginehost.store import make_store

if TYPE_CHECKING:
    from enginehost.agents.port import FolderHost
    from enginehost.catalog import Entry
    from enginehost.store.port import Store


class HostAgents:
    """Opens the database when a session is first needed, and closes it with the host."""

    def __init__(self, host: FolderHost) -> None:
        self._host = host
        self._opening = asyncio.Lock()
        self._service: AgentService | None = None
        self._store: Store | None = None
        self._place: Place | None = None
        self._closed = False
        self._known: tuple[int, dict[str, AgentSpec]] = (-1, {})

    async def service(self) -> AgentService:
        """See :meth:`enginehost.host.Host.agents`."""
        if self._service is not None:
            return self._service
        async with self._opening:
            if self._closed:
                raise EngineUnavailable("the host stops", state="closing", reason="the host stops")
            if self._service is None:
                self._service = await self._opened()
        return self._service

    async def _opened(self) -> AgentService:
        settings = self._host.settings
        store = make_store(settings)
        await store.open()
        place = self._place = self._place or await asyncio.to_thread(Place, settings.state_dir)
        service = AgentService(
            self._host,
            store,
            prepare=self._prepared,
            declared=self.declared,
            skills=self._skills_for,
            most_reply=int(settings.max_result_bytes),
            lease=settings.store.lease,
            origin=place.origin,
        )
        try:
            await service.open()
        except BaseException:
            await store.close()
            raise
        self._store = store
        return service

    async def close(self, drain: float) -> None:
        """Hand turns that still run after ``drain`` seconds to other processes; close the database."""
        async with self._opening:
            self._closed = True
            store, self._store = self._store, None
            with self._place or nullcontext():
                if self._service is not None and store is not None:
                    try:
                        await self._service.close(drain)
                    finally:
                        await store.close()

    def declared(self) -> Mapping[str, AgentSpec]:
        """The agents of the catalog, by name: whoever has a name there has it here."""
        version, specs = self._known
        catalog = self._host.catalog
        if version != catalog.version:
            specs = {name: engine.spec for name, engine in self._engines()}
            self._known = catalog.version, specs
        return specs

    def metrics(self, may_view: Callable[[FunctionSignature], bool]) -> tuple[Metrics, Iterable[Row]]:
        """What :func:`enginehost.metrics.render` takes; the rows are read on any thread."""
        service = self._service
        if service is None:
            return {}, ()
        agents, catalog = service.agents, self._host.catalog

        def shown(name: str) -> bool:
            entry = catalog.get(name)
            known = agents.get(name)
            signature = agent_signature(known) if known is not None else FunctionSignature(name)
            return may_view(entry.signature if entry is not None else signature)

        return AGENT_METRICS, service.counts.rows(shown)

    def lacks(self, spec: AgentSpec) -> str:
        """What an agent names that there is not now, in words; empty while it has all that it needs."""
        catalog = self._host.catalog
        here = self._service.agents if self._service is not None else self.declared()
        agents = {*here, *(name for name in spec.agents if self._is_elsewhere(name))}

        def function(name: str) -> FunctionSignature | None:
            entry = catalog.get(name)
            return entry.signature if entry is not None else None

        def has_tag(tag: str) -> bool:
            return any(tag in entry.signature.tags for entry in catalog)

        around = Surroundings(self._model_fault, function, has_tag, agents)
        return "; ".join(one.message for one in missing(spec, around))

    def _is_elsewhere(self, name: str) -> bool:
        entry = self._host.catalog.get(name)
        return entry is not None and is_remote_agent(entry)

    def _model_fault(self, name: str) -> str:
        try:
            self._host.llm(name)
        except EngineHostError as error:
            return error.message
        return ""

    def _engines(self) -> list[tuple[str, AgentEngine]]:
        found = ((entry.name, _agent_of(entry)) for entry in self._host.catalog)
        return [(name, engine) for name, engine in found if engine is not None]

    def _prepared(self, spec: AgentSpec) -> AgentSpec:
        """A spec with the text and the tool of its skills: the agent's own, else the folder's."""
        return with_skills(spec, self._skills_for(spec)) if spec.skills else spec

    def _skills_for(self, spec: AgentSpec) -> Mapping[str, Skill]:
        """The skills that a spec may name."""
        entry = self._host.catalog.get(spec.name)
        engine = _agent_of(entry) if entry is not None else None
        known: Mapping[str, Skill] = engine.skill_library if engine is not None else {}
        if self._host.folder is not None and not known.keys() >= set(spec.skills):
            known = {**read_skills(self._host.folder / "skills").skills, **known}
        return known


def _agent_of(entry: Entry) -> AgentEngine | None:
    """The agent behind a function: its engine, or what that stands for (a class in a worker process)."""
    return agent_behind(entry.record.engine)
