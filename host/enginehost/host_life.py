"""What a host starts, and how it stops that again: each part in its turn, since one stands on the other."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TextIO

from enginehost.added_engines import AddedEngines
from enginehost.bus_joining import join_bus
from enginehost.contributions import Contributions, collect
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.draining import end_calls
from enginehost.errors import ConfigError
from enginehost.faces import Faces
from enginehost.loader import Services
from enginehost.policy_source import PolicySource
from enginehost.policy_words import unknown_faces
from enginehost.record_sinks import open_sinks
from enginehost.served_folder import ServedFolder, secrets_for
from enginehost.settings_doubts import doubts
from enginehost.specs import register_spec_kind, spec_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginehost.databus import Databus, DatabusConfig
    from enginehost.host import Host
    from enginehost.invoke import Invoker
    from enginehost.monitoring.network import Network
    from enginehost.monitoring.recorder import ChainRecorder

_LOOK_FOR_TRACER_SECONDS = 1.0

_log = logging.getLogger("enginehost.host")


class HostLife:
    """Owns what runs beside the calls of ``host``: its folder, its place on the databus, faces, records.

    ``databus``, ``log``, ``watch`` and ``ahead`` are those of the host; ``lacks`` says what an agent lacks.
    """

    def __init__(
        self,
        host: Host,
        invoker: Invoker,
        policy: PolicySource,
        *,
        databus: DatabusConfig | str | None,
        log: TextIO | None,
        watch: bool,
        ahead: bool,
        lacks: Callable[[Any], str],
    ) -> None:
        self.bus: Databus | None = None
        self._services = Services(host.agents, host.llm, lacks)
        self.added = AddedEngines(host.catalog, self._services, self.look_for_news)
        self._host = host
        self._invoker = invoker
        self._policy = policy
        self._databus = databus
        self._log_stream = log
        self._watch = watch
        self._ahead = ahead
        self._contributions = Contributions()
        self._served: ServedFolder | None = None
        self._faces: Faces | None = None
        self._bus_problems: list[Diagnostic] = []
        self._tracing_task: asyncio.Task[None] | None = None
        self.chains: ChainRecorder | None = None
        self.network: Network | None = None
        self._ending = asyncio.Lock()
        """One stop at a time: a second waits for the first, and ends what it left."""
        self._at_end = ExitStack()
        """What a stop does last: close the audit, take back what plugins added to the process."""

    async def start(self) -> None:
        """Start everything. Where that fails, :meth:`stop` ends what has begun."""
        self._invoker.not_yet = "the host is still loading its folder"
        loop = asyncio.get_running_loop()
        registry, settings = self._host.registry, self._host.settings
        self._contributions = made = await loop.run_in_executor(None, collect, registry)
        self._add_spec_kinds()
        self._start_records()
        self._invoker.tracing.refresh()
        self._tracing_task = loop.create_task(self._keep_looking_for_a_tracer())
        self._faces = Faces(made.faces, registry.report, timeout=settings.open_timeout)
        try:
            await self._start_folder()
        finally:
            self._invoker.not_yet = ""
        await self._start_bus()
        await self._start_recording()
        await self._faces.start(self._host)

    async def stop(self, drain: float) -> None:
        """Let calls end for ``drain`` seconds, then end them; close all. New ones are refused already."""
        async with self._ending:
            if self._served is not None:
                await self._served.stop_following()
            await end_calls(self._invoker, drain)
            if self._faces is not None:
                await self._faces.stop()
            if self.bus is not None:
                await self.bus.stop()
            await self.added.close()
            if self._served is not None:
                await self._served.close()
            await self._invoker.close()
            if self._tracing_task is not None:
                self._tracing_task.cancel()
                await asyncio.wait({self._tracing_task})
            await asyncio.get_running_loop().run_in_executor(None, self._invoker.recorder.stop)
            if self.chains is not None:
                await asyncio.to_thread(self.chains.stop)
            self._at_end.close()

    def problems(self) -> list[Diagnostic]:
        """What is wrong with no engine; see :meth:`enginehost.host.Host.own_problems`."""
        host = self._host
        found = [*self._bus_problems, *self._policy.problems, *doubts(host.settings, host.folder)]
        found += self._unknown_faces()
        found += self.bus.problems() if self.bus is not None else []
        found += self._served.problems() if self._served is not None else []
        return found + [
            Diagnostic(problem.distribution, 0, 0, Severity.WARNING, "plugin", str(problem), problem.hint)
            for problem in host.registry.problems
        ]

    def look_for_news(self) -> None:
        """Something has changed that is not in the files: tell what is new."""
        if self._served is not None:
            self._served.look_for_news()

    def _add_spec_kinds(self) -> None:
        for kind, mapper in self._contributions.signature_mappers.items():
            if kind not in spec_kinds():  # another host in this process has the plugin's kind already
                self._at_end.callback(register_spec_kind(kind, mapper))

    def _start_records(self) -> None:
        recorder, host = self._invoker.recorder, self._host
        observers = self._contributions.observers
        recorder.sinks = open_sinks(host.settings, self._log_stream, observers, host.redactor, self._at_end)
        recorder.start()

    async def _keep_looking_for_a_tracer(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_FOR_TRACER_SECONDS)
            self._invoker.tracing.refresh()

    async def _start_folder(self) -> None:
        host = self._host
        if host.folder is None:
            return
        self._served = ServedFolder(
            host.folder,
            host.catalog,
            host.registry,
            secrets_for(host.settings, self._contributions, host.redactor),
            host.settings,
            self._policy,
            ahead=self._ahead,
            services=self._services,
        )
        await self._served.load(self._unknown_faces, patient=not self._watch)
        if self._watch:
            self._served.follow(self._policy_changed)

    async def _start_bus(self) -> None:
        host, transports = self._host, self._contributions.transports
        self.bus, self._bus_problems = await join_bus(host, self._databus, host.settings, transports)

    async def _start_recording(self) -> None:
        """Keep the book of who called whom and, where the settings say so, record chains."""
        from enginehost.monitoring.network import Network

        host = self._host
        self.network = Network(host)
        if host.settings.record_chains != "off":
            self.chains = await asyncio.to_thread(_recorder_of, host)
            await asyncio.to_thread(self.chains.start)

    def _unknown_faces(self) -> list[Diagnostic]:
        return unknown_faces(self._host.policy, self._contributions.faces)

    def _policy_changed(self) -> None:
        try:
            self._host.reload_policy()
        except ConfigError as error:
            _log.error("the policy file is wrong and the old policy stays: %s", error)


def _recorder_of(host: Host) -> ChainRecorder:
    from enginehost.monitoring.recorder import ChainRecorder
    from enginehost.monitoring.writer import ChainWriter
    from enginehost.store.place import database_url

    settings = host.settings
    url = database_url(settings.store.url, settings.state_dir)
    writer = ChainWriter(url, days=settings.chain_days, lock_timeout=settings.store.lock_timeout)
    writer.open()
    return ChainRecorder(host, writer, host.place, values=settings.record_chains == "values")
