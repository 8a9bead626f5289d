"""The host: a folder of smss files in, functions that can be called out.

::

    async with Host("smss") as host:
        print(await host.call("add", {"a": 1, "b": 2}))
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TextIO

from enginehost.bus_joining import check_bus
from enginehost.call_types import check_types
from enginehost.caller import LOCAL, Caller
from enginehost.catalog import Catalog, EngineRecord, Entry
from enginehost.diagnostics import Diagnostic
from enginehost.engine import CURRENT, AbstractFunctionEngine, Call, IFunctionEngine
from enginehost.errors import EngineHostError, EngineUnavailable, TooLarge
from enginehost.host_life import HostLife
from enginehost.invoke import Invoker
from enginehost.names import FaceNames
from enginehost.patience import Impatient, within
from enginehost.plugins import PluginRegistry
from enginehost.policy import Policy
from enginehost.policy_source import PolicySource
from enginehost.record import Recorder, Sink, Stats
from enginehost.redaction import Redactor
from enginehost.runtime import Runtime
from enginehost.served_folder import folder_at
from enginehost.settings import HostSettings, load_settings
from enginehost.steps import Steps
from enginehost.toolsets import ToolSets
from enginehost.trace_context import NO_TRACE, TraceContext
from enginehost.values import encode

if TYPE_CHECKING:
    from enginehost.agents.contract import AgentSpec
    from enginehost.agents.hosting import HostAgents
    from enginehost.agents.service import AgentService
    from enginehost.databus import Databus, DatabusConfig
    from enginehost.llm.models import ModelInfo, Models
    from enginehost.llm.service import LLMService
    from enginehost.model_tools import ModelTools, Own
    from enginehost.monitoring.network import Count, Decided, Edge
    from enginehost.narrowing import Embed, Narrowing
    from enginehost.signature import FunctionSignature

_FOREVER = 10 * 365 * 86400.0
"""Seconds; the deadline of calls that have none."""

_NOT_STARTED = "the host does not run yet: use `async with Host(…) as host`, or `await host.start()`"

_log = logging.getLogger("enginehost.host")


def _keeps_values(settings: HostSettings, databus: Any) -> bool:
    """Whether somebody is to be told arguments and results: the audit, recorded chains, monitors."""
    monitors = getattr(databus, "event_values", settings.databus.event_values)
    audit = settings.audit.values and settings.audit.path is not None
    return audit or settings.record_chains == "values" or monitors


class Host:
    """A running engine host.

    ``folder`` is watched for smss files; ``None`` serves only engines that are added by hand.
    ``databus`` is ``"auto"`` (where the DDS library is installed), ``None``, or a
    :class:`~enginehost.databus.DatabusConfig`. ``settings`` default to what ``enginehost.yaml`` and the
    environment say. ``log`` is where one line per call is written (nowhere by default).
    ``watch`` off loads the folder once. ``ahead`` off leaves what takes long to open, such as the
    installation of a script's requirements, to :meth:`prepare` and to the first call.

    Raises :class:`~enginehost.errors.ConfigError` where settings or the policy are wrong, or ``folder`` is
    none. A wrong smss file never does: it is listed in :meth:`problems`; so is a folder that is not there
    yet.
    """

    def __init__(
        self,
        folder: str | Path | None = "smss",
        databus: Literal["auto"] | DatabusConfig | None = "auto",
        *,
        settings: HostSettings | None = None,
        registry: PluginRegistry | None = None,
        log: TextIO | None = None,
        watch: bool = True,
        ahead: bool = True,
    ) -> None:
        self.folder = folder_at(folder) if folder is not None else None
        self.settings = settings = settings if settings is not None else load_settings(self.folder)
        self.registry = registry or PluginRegistry()
        self.catalog = Catalog()
        self.redactor = Redactor()
        self.ready = False
        check_bus(databus, settings, known=registry is None)
        self._started = False
        self._tools = ToolSets(self.catalog)
        self._models: Models | None = None
        self._narrowing: Narrowing | None = None
        self._agents: HostAgents | None = None
        self._policy_source = PolicySource(settings, databus)
        self._recorder = Recorder((), lossless=settings.audit.path is not None)
        self._invoker = Invoker(
            self.catalog,
            self._policy_source.read(),
            self._recorder,
            default_timeout=settings.default_timeout or _FOREVER,
            max_result_bytes=settings.max_result_bytes,
            max_in_flight=settings.max_in_flight,
            keep_values=_keeps_values(settings, databus),
            redact=self.redactor,
        )
        self._invoker.not_yet = _NOT_STARTED
        self._life = HostLife(
            self,
            self._invoker,
            self._policy_source,
            databus=databus,
            log=log,
            watch=watch,
            ahead=ahead,
            lacks=self._lacks,
        )

    # Life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Load plugins and the folder, open the engines, go on the databus.

        Returns when every engine serves, failed, or has used up its time to open. A host starts once;
        where that fails, nothing of it is left running.
        """
        if self._started:
            raise RuntimeError("a host starts once; make another one")
        self._started = True
        try:
            await self._life.start()
        except BaseException:
            await self.stop(0.0)
            raise
        self.ready = True

    async def stop(self, drain: float | None = None) -> None:
        """Refuse new calls, let the running ones end for ``drain`` seconds, then end them; close all.

        Every call is answered: with its result, with ``outcome_unknown`` where it had begun, or with
        ``engine_unavailable``.
        """
        self.ready = False
        drain = self.settings.drain_seconds if drain is None else drain
        if self._agents is not None:  # while tools can still be called: no turn loses one
            await self._agents.close(drain)
        self._invoker.accepting = False
        await self._life.stop(drain)

    def abandon(self) -> None:
        """End every call now with ``outcome_unknown``, for a process that ends without :meth:`stop`."""
        self._invoker.abandon()

    def write_down(self, busy: Call | None = None) -> None:
        """After :meth:`abandon`: write the records of all calls, of those that did not end too.

        ``busy`` is a call that may hold up the event loop. Runs on any thread, and as long as those who keep
        the records need.
        """
        self._invoker.write_off(busy)
        self._recorder.flush()

    @property
    def accepting(self) -> bool:
        """Whether new calls are taken (not while draining)."""
        return self._invoker.accepting

    @property
    def in_flight(self) -> int:
        """Calls that run or wait now."""
        return self._invoker.in_flight

    # Calls

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        caller: Caller | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Call a function and give its result (a list, where it streams).

        ``caller`` defaults to the caller of the call this code serves, else to the program itself.
        ``timeout`` in seconds can only shorten what the function and the host allow. Raises the errors
        of :mod:`enginehost.errors`.
        """
        check_types(name, caller, timeout)
        invoker = self._invoker
        return await invoker.call(invoker.new_call(name, caller), arguments, timeout=timeout)

    def stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        caller: Caller | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Any, None]:
        """The items of a streaming function as they come; the one result of a plain one."""
        check_types(name, caller, timeout)
        invoker = self._invoker
        return invoker.stream(invoker.new_call(name, caller), arguments, timeout=timeout)

    def new_call(self, name: str, caller: Caller | None = None, arrived: TraceContext = NO_TRACE) -> Call:
        """For faces: a call of ``name`` that is not made yet; its ids are for the caller.

        ``arrived`` is the trace that came with the request.
        """
        return self._invoker.new_call(name, caller, arrived)

    def call_json(
        self, call: Call, arguments: Any, *, timeout: float | None = None, coerce: bool = False
    ) -> Coroutine[Any, Any, bytes]:
        """Make a call of :meth:`new_call`; the result as JSON bytes, within the size limit.

        ``coerce`` lets text stand for numbers and booleans (loosely typed faces).
        """
        return self._invoker.call(call, arguments, timeout=timeout, coerce=coerce, encode=self._encode)

    def stream_json(
        self, call: Call, arguments: Any, *, timeout: float | None = None, coerce: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """:meth:`stream` for faces: each item as JSON bytes."""
        return self._invoker.stream(call, arguments, timeout=timeout, coerce=coerce, encode=self._encode)

    def refuse(self, call: Call, error: EngineHostError, *, peer: str = "") -> None:
        """For faces: record ``call``, which is refused with ``error`` before it is made.

        ``peer`` is the address of one who could not say who they are.
        """
        self._invoker.refuse(call, error, peer=peer)

    def watch_starts(self, heard: Callable[[Call], None]) -> Callable[[], None]:
        """For monitors: tell ``heard`` of each call that begins, until the returned function is called.

        It runs on the call path, on the event loop, and must neither wait nor raise.
        """
        return self._invoker.tracing.watch(heard)

    @property
    def steps(self) -> Steps:
        """For monitors: tells of the steps of chains that are no calls of functions."""
        return self._invoker.tracing.steps

    def watch_ends(self, sink: Sink) -> Callable[[], None]:
        """For monitors: give ``sink`` the records of calls, on the thread that writes them.

        Until the returned function is called.
        """
        return self._recorder.add(sink)

    def place(self) -> tuple[str, str]:
        """For monitors: the host's id on the databus and which start of it this is; ``local`` on none."""
        return (self.bus.place if self.bus is not None else None) or ("local", "")

    def called(self) -> Mapping[Edge, Count]:
        """For monitors: who called whom since the host started."""
        network = self._life.network
        return network.edges() if network is not None else {}

    def decided(self) -> Sequence[Decided]:
        """For monitors: the latest decisions of people, and the chains that they link."""
        network = self._life.network
        return network.decided() if network is not None else ()

    def recorded(self) -> Mapping[str, int] | None:
        """For monitors: how many events of chains were recorded and dropped; ``None`` where none are."""
        return self._life.chains.writer.describe() if self._life.chains is not None else None

    # What there is

    def functions(self, caller: Caller | None = None, tags: Iterable[str] = ()) -> list[Entry]:
        """The functions that ``caller`` may view, by name; with ``tags``, those that have one of them.

        A plain text counts as one tag.
        """
        caller = caller or LOCAL
        wanted = frozenset((tags,) if isinstance(tags, str) else tags)
        return [
            entry
            for entry in self.catalog
            if (not wanted or not wanted.isdisjoint(entry.signature.tags))
            and (caller is LOCAL or self.policy.may_view(caller, entry.signature))
        ]

    def entry(self, name: str, caller: Caller | None = None) -> Entry:
        """One function.

        Raises ``UnknownFunction`` (also where the caller may not view it) and ``EngineUnavailable``.
        """
        check_types(name, caller)
        return self._invoker.entry(name, caller or LOCAL)

    async def prepare(self, name: str) -> None:
        """Do what the engine of a function left to its first call, with its own patience, not the call's.

        Raises ``UnknownFunction`` and ``EngineUnavailable``.
        """
        engine = self.entry(name).record.engine
        if isinstance(engine, AbstractFunctionEngine):
            patience = getattr(engine, "open_seconds", None) or self.settings.open_timeout
            try:
                await within(engine.before_first_call(), patience, f"making {name} ready")
            except Impatient as error:
                raise EngineUnavailable(str(error), state="loading", reason=str(error)) from None

    def stats(self, name: str) -> Stats | None:
        """For the databus: the counters of a function; ``None`` before its first call."""
        return self._invoker.stats.get(name)

    def visible(self, name: str, caller: Caller) -> Entry | None:
        """For faces: the function ``name``, if there is one and ``caller`` may view it."""
        return self._invoker.visible(name, caller)

    def tools(
        self, kind: str = "openai", *, caller: Caller | None = None, tags: Iterable[str] = ()
    ) -> list[dict[str, Any]]:
        """The functions as tools of one kind (:func:`enginehost.specs.spec_kinds`).

        Raises ``InvalidRequest`` for an unknown kind.
        """
        return self._tools.specs(kind, self.functions(caller, tags))

    async def tools_for_model(
        self,
        query: str = "",
        kind: str = "openai",
        *,
        caller: Caller | None = None,
        tags: Iterable[str] = (),
        most: int | None = None,
        own: Iterable[Own] = (),
        keep: Iterable[str] = (),
        classifier: str | Embed = "bm25",
    ) -> ModelTools:
        """What a model may call now: functions and agents, also of other hosts, and tools of your own.

        Those that ``caller`` may view and call, with one of ``tags`` where there are any. With a ``query``
        those that fit it, the best first; else all, by name; at most ``most``. ``own`` (functions or their
        signatures, which you run yourself) come first and are always among them, and so are the functions
        named in ``keep``. An own tool hides a function of its name. ``classifier`` is ``bm25``,
        ``embedding:ENGINE``, ``llm:MODEL``, or what gives vectors of texts; one that fails is replaced by
        ``bm25``, and the log says so once.

        Raises ``InvalidRequest`` for an unknown kind or classifier.
        """
        from enginehost.model_tools import tools_for_model

        return await tools_for_model(
            self,
            self._tools,
            query,
            kind,
            caller=caller or LOCAL,
            tags=tags,
            most=most,
            own=own,
            keep=keep,
            classifier=classifier,
        )

    @property
    def narrowing(self) -> Narrowing:
        """What chooses among many functions those that fit a query."""
        if self._narrowing is None:
            from enginehost.narrowing import Narrowing

            self._narrowing = Narrowing(self.catalog, self.llm, lambda name: self.llm(name).embed)
        return self._narrowing

    def resolve(self, name: str, kind: str | None = None, *, caller: Caller | None = None) -> str:
        """The function that a face of ``kind`` shows to ``caller`` as ``name``; else ``name`` itself.

        Without ``kind`` the faces of every kind are asked. A function of exactly that name goes first.
        """
        return self._tools.resolve(name, kind, lambda one: self.visible(one, caller or LOCAL))

    def face_names(self, kind: str) -> FaceNames:
        """The names of all functions on faces of ``kind``; :meth:`resolve` is the way back."""
        return self._tools.face_names(kind)

    def llm(self, name: str = "") -> LLMService:
        """The service that talks to a model engine: by its id, its name, or a part of the model's id.

        ``name`` may be left out where there is only one. Raises ``InvalidRequest`` where there is none of
        that name, and ``EngineUnavailable`` where it cannot answer.
        """
        from enginehost.llm.service import LLMService

        models = self._all_models()
        models.find(name)
        return LLMService(models, name, self._tool_signature, self._invoker.tracing)

    async def agents(self) -> AgentService:
        """The service of sessions, with the agents of the folder.

        The database that the settings name is opened at the first time, or when the folder's first agent is.
        Raises ``ConfigError`` where it cannot be opened, and ``EngineUnavailable`` once the host stops.
        """
        return await self._all_agents().service()

    def agent_specs(self) -> Mapping[str, AgentSpec]:
        """The agents that the folder's files declare, by name; opens no database."""
        return self._all_agents().declared()

    def models(self) -> list[ModelInfo]:
        """The model engines, by name."""
        return self._all_models().list()

    @property
    def policy(self) -> Policy:
        """Who may view and call what, now."""
        return self._invoker.policy

    @property
    def bus(self) -> Databus | None:
        """The host's place on the databus, while it has one."""
        return self._life.bus

    def problems(self) -> list[Diagnostic]:
        """Everything that is wrong now: files, name conflicts, plugins, the folder, the databus."""
        return self.own_problems() + self.catalog.diagnostics()

    def own_problems(self) -> list[Diagnostic]:
        """What is wrong with no engine: policy, folder, databus, plugins, what is no file in the folder."""
        return self._life.problems()

    def metrics(self, caller: Caller | None = None) -> bytes:
        """Prometheus text, with rows for each function that ``caller`` may view, and for the others together.

        Takes a while with thousands of functions: call it on a thread.
        """
        from enginehost.metrics import render

        caller, policy = caller or LOCAL, self.policy

        def may_view(signature: FunctionSignature) -> bool:
            return policy.may_view(caller, signature)

        further = [self._models.metrics()] if self._models is not None else []
        further += [self._agents.metrics(may_view)] if self._agents is not None else []
        return render(self._invoker, self.catalog, may_view, *further)

    async def add_engine(self, record: EngineRecord, engine: IFunctionEngine) -> None:
        """Serve an engine that has no file (a program's own). Raises what its ``open`` raises."""
        await self._life.added.add(record, engine)

    async def remove_engine(self, engine_id: str) -> None:
        """Take an engine of :meth:`add_engine` out again and close it."""
        await self._life.added.remove(engine_id)

    def reload_policy(self) -> None:
        """Read the policy file again. Raises ``ConfigError``; then the old policy stays."""
        if self._policy_source.file is None:
            _log.info("no policy file is set, so there is none to read again")
            return
        self._invoker.policy = self._policy_source.read_again()
        self.catalog.version += 1
        if self.bus is not None:
            self.bus.refresh()
        self._life.look_for_news()

    # Inside

    def _all_models(self) -> Models:
        if self._models is None:
            from enginehost.llm.models import Models

            self._models = Models(self.catalog)
        return self._models

    def _all_agents(self) -> HostAgents:
        if self._agents is None:
            from enginehost.agents.hosting import HostAgents

            self._agents = HostAgents(self)
        return self._agents

    def _lacks(self, spec: AgentSpec) -> str:
        return self._all_agents().lacks(spec)

    def _tool_signature(self, name: str) -> FunctionSignature:
        """A tool by name, as the caller of the running call may view it."""
        call = CURRENT.get()
        return self.entry(self.resolve(name), call.caller if call is not None else None).signature

    def _encode(self, result: Any, runtime: Runtime) -> bytes:
        data = encode(result, allow_nan=self.settings.allow_nan)
        if len(data) > runtime.max_result_bytes:
            raise TooLarge(f"the result of {runtime.name}", limit=runtime.max_result_bytes, size=len(data))
        return data
