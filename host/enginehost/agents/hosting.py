"""The agents of a host: those of its folder, those that programs register, and the database they share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from enginehost.agents.agent_engine import AgentEngine, agent_behind
from enginehost.agents.contract import AgentSpec
from enginehost.agents.missing import missing
from enginehost.agents.service import AgentService
from enginehost.agents.skills import Skill, read_skills, with_skills
from enginehost.errors import EngineHostError, EngineUnavailable
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
        store = make_store(self._host.settings)
        await store.open()
        service = AgentService(self._host, store, prepare=self._prepared, declared=self.declared)
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

    def lacks(self, spec: AgentSpec) -> str:
        """What an agent names that there is not now, in words; empty while it has all that it needs."""
        catalog = self._host.catalog
        functions = {name for name in spec.tools.names if (one := catalog.get(name)) and one.name == name}
        agents = self._service.agents if self._service is not None else self.declared()
        return "; ".join(one.message for one in missing(spec, self._model_fault, functions, agents))

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
        if not spec.skills:
            return spec
        entry = self._host.catalog.get(spec.name)
        engine = _agent_of(entry) if entry is not None else None
        known: Mapping[str, Skill] = engine.skill_library if engine is not None else {}
        if self._host.folder is not None and not known.keys() >= set(spec.skills):
            known = {**read_skills(self._host.folder / "skills").skills, **known}
        return with_skills(spec, known)


def _agent_of(entry: Entry) -> AgentEngine | None:
    """The agent behind a function: its engine, or what that stands for (a class in a worker process)."""
    return agent_behind(entry.record.engine)
