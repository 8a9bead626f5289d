"""The host: a folder of smss files in, functions that can be called out.

::

    async with Host("smss") as host:
        print(await host.call("add", {"a": 1, "b": 2}))
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TextIO

from enginehost.caller import LOCAL, Caller
from enginehost.catalog import Catalog, EngineRecord, Entry
from enginehost.contributions import Contributions, collect
from enginehost.diagnostics import IN_PROBLEMS, Diagnostic, Severity, error_diagnostics
from enginehost.engine import (
    CURRENT,
    AbstractFunctionEngine,
    Call,
    EngineContext,
    EngineState,
    IFunctionEngine,
    no_sessions,
)
from enginehost.errors import ConfigError, EngineHostError, EngineUnavailable, TooLarge
from enginehost.faces import Faces
from enginehost.folder import fingerprint
from enginehost.following import Following
from enginehost.invoke import Invoker
from enginehost.lifecycle import Engines
from enginehost.loader import folder_loader, functions_of
from enginehost.names import FaceNames
from enginehost.patience import Impatient, within
from enginehost.plugins import PluginRegistry
from enginehost.policy import Policy, policy_for
from enginehost.policy_words import unknown_faces
from enginehost.record import Recorder, Sink, Stats
from enginehost.redaction import Redactor
from enginehost.runtime import Runtime
from enginehost.secrets import Secrets
from enginehost.settings import HostSettings, load_settings
from enginehost.settings_doubts import doubts
from enginehost.sinks import AuditFile, console_log, each, json_log
from enginehost.specs import register_spec_kind, spec_kinds
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
    from enginehost.signature import FunctionSignature

_FOREVER = 10 * 365 * 86400.0
"""Seconds; the deadline of calls that have none."""

_NOT_STARTED = "the host does not run yet: use `async with Host(…) as host`, or `await host.start()`"

_log = logging.getLogger("enginehost.host")


def _check_types(name: Any, caller: Any = None, timeout: Any = None) -> None:
    """A slip in the program that calls is its own, not the function's."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a function has to be text, not {type(name).__name__}")
    if caller is not None and not isinstance(caller, Caller):
        raise TypeError(f"caller has to be a Caller, not {type(caller).__name__}")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, Real)):
        raise TypeError(f"timeout has to be a number of seconds, not {type(timeout).__name__}")


def _folder(path: str | Path) -> Path:
    folder = Path(path).absolute()
    if folder.exists() and not folder.is_dir():
        hint = "name the folder that holds the smss files"
        raise ConfigError(f"{path} is no folder", hint=hint, reason="no-folder")
    return folder


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
        self.folder = _folder(folder) if folder is not None else None
        self.settings = settings if settings is not None else load_settings(self.folder)
        self.registry = registry or PluginRegistry()
        self.catalog = Catalog()
        self.redactor = Redactor()
        self.bus: Databus | None = None
        self.ready = False
        self._databus = databus
        self._log_stream = log
        self._watch = watch
        self._ahead = ahead
        self._contributions = Contributions()
        self._faces: Faces | None = None
        self._audit: AuditFile | None = None
        self._following: Following | None = None
        self._engines: Engines | None = None
        self._added: dict[str, EngineRecord] = {}
        self._tools = ToolSets(self.catalog)
        self._models: Models | None = None
        self._agents: HostAgents | None = None
        self._unregister: list[Any] = []
        self._tracing_task: asyncio.Task[None] | None = None
        self._started = False
        self._ending = asyncio.Lock()
        """One stop at a time: a second waits for the first, and ends what it left."""
        self._problems: list[Diagnostic] = []
        self._check_bus(known=registry is None)
        policy = self._policy_file()
        self._policy_seen = fingerprint(policy) if policy is not None else None
        """The policy file as it was when it was read."""
        settings = self.settings
        self._recorder = Recorder((), lossless=settings.audit.path is not None)
        self._invoker = Invoker(
            self.catalog,
            self._read_policy(),
            self._recorder,
            default_timeout=settings.default_timeout or _FOREVER,
            max_result_bytes=settings.max_result_bytes,
            max_in_flight=settings.max_in_flight,
            keep_values=settings.audit.values and settings.audit.path is not None,
            redact=self.redactor,
        )
        self._invoker.not_yet = _NOT_STARTED

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
        self._invoker.not_yet = "the host is still loading its folder"
        try:
            await self._start()
        except BaseException:
            await self.stop(0.0)
            raise

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._contributions = await loop.run_in_executor(None, collect, self.registry)
        self._add_spec_kinds()
        self._recorder.sinks = self._sinks()
        self._recorder.start()
        self._invoker.tracing.refresh()
        self._tracing_task = loop.create_task(self._keep_looking_for_a_tracer())
        self._faces = Faces(
            self._contributions.faces, self.registry.report, timeout=self.settings.open_timeout
        )
        await self._start_folder()
        await self._start_bus()
        await self._faces.start(self)
        self.ready = True

    async def stop(self, drain: float | None = None) -> None:
        """Refuse new calls, let the running ones end for ``drain`` seconds, then end them; close all.

        Every call is answered: with its result, with ``outcome_unknown`` where it had begun, or with
        ``engine_unavailable``.
        """
        self.ready = False
        if self._agents is not None:  # while tools can still be called: no turn loses one
            await self._agents.close(self.settings.drain_seconds if drain is None else drain)
        self._invoker.accepting = False
        async with self._ending:
            await self._stop(self.settings.drain_seconds if drain is None else drain)

    async def _stop(self, drain: float) -> None:
        if self._following is not None:
            await self._following.stop()
        await self._invoker.end_held(asyncio.current_task())  # which cannot read on while it stops the host
        await self._drained(drain)
        stopped = self._invoker.stop_waiting()
        await self._invoker.end_held()  # a reader that has stopped reading would never let them end
        if stopped:
            await self._drained(2.0)
            await self._invoker.end_held()
        if self._faces is not None:
            await self._faces.stop()
        if self.bus is not None:
            await self.bus.stop()
        await self._close_engines()
        await self._invoker.close()
        if self._tracing_task is not None:
            self._tracing_task.cancel()
            await asyncio.wait({self._tracing_task})
        await asyncio.get_running_loop().run_in_executor(None, self._recorder.stop)
        if self._audit is not None:
            self._audit.close()
        while self._unregister:
            self._unregister.pop()()

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
        _check_types(name, caller, timeout)
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
        _check_types(name, caller, timeout)
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

    def watch_starts(self, heard: Callable[[Call], None] | None) -> None:
        """For the databus: tell ``heard`` of each call that begins, on the event loop; ``None``: nobody.

        It runs on the call path, and must neither wait nor raise.
        """
        self._invoker.tracing.watch(heard)

    def watch_ends(self, sink: Sink) -> Callable[[], None]:
        """For the databus: give ``sink`` the records of calls, on the thread that writes them.

        Until the returned function is called.
        """
        return self._recorder.add(sink)

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
        _check_types(name, caller)
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

    def resolve(self, name: str, kind: str | None = None, *, caller: Caller | None = None) -> str:
        """The function that a face of ``kind`` shows to ``caller`` as ``name``; else ``name`` itself.

        Without ``kind`` the faces of every kind are asked. A function of exactly that name goes first.
        """
        return self._tools.resolve(name, kind, lambda one: self.visible(one, caller or LOCAL))

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

    def problems(self) -> list[Diagnostic]:
        """Everything that is wrong now: files, name conflicts, plugins, the folder, the databus."""
        return self.own_problems() + self.catalog.diagnostics()

    def own_problems(self) -> list[Diagnostic]:
        """What is wrong with no engine: policy, folder, databus, plugins, what is no file in the folder."""
        found = [*self._problems, *doubts(self.settings, self.folder)]
        found += unknown_faces(self.policy, self._contributions.faces)
        found += self.bus.problems() if self.bus is not None else []
        if self._following is not None:
            found += [*self._following.problems(), *self._following.unusable()]
        return found + [
            Diagnostic(problem.distribution, 0, 0, Severity.WARNING, "plugin", str(problem), problem.hint)
            for problem in self.registry.problems
        ]

    def metrics(self, caller: Caller | None = None) -> bytes:
        """Prometheus text, with a row for each function that ``caller`` may view and one for the others.

        Takes a while with thousands of functions: call it on a thread.
        """
        from enginehost.metrics import render

        caller, policy = caller or LOCAL, self.policy
        return render(
            self._invoker,
            self.catalog,
            lambda signature: policy.may_view(caller, signature),
            self._models.metrics() if self._models is not None else ({}, ()),
        )

    async def add_engine(self, record: EngineRecord, engine: IFunctionEngine) -> None:
        """Serve an engine that has no file (a program's own). Raises what its ``open`` raises."""
        if record.engine_id in self.catalog.records:
            raise ValueError(f"there is an engine with the id {record.engine_id!r} already")
        context = getattr(engine, "context", None)
        if isinstance(context, EngineContext) and context.agents is no_sessions:
            engine.context = replace(context, agents=self.agents, lacks=self._lacks)
        try:
            await engine.open()
            functions = functions_of(engine)
        except BaseException:
            await engine.close()
            raise
        record.engine = engine
        if record.state is not EngineState.READY:
            record.move(EngineState.READY)
        self._added[record.engine_id] = record
        self.catalog.put(record, functions)
        self._look_for_news()

    async def remove_engine(self, engine_id: str) -> None:
        """Take an engine of :meth:`add_engine` out again and close it."""
        record = self._added.pop(engine_id)
        self.catalog.remove(engine_id)
        self._look_for_news()
        record.move(EngineState.CLOSING)
        if record.engine is not None:
            await record.engine.close()

    def reload_policy(self) -> None:
        """Read the policy file again. Raises ``ConfigError``; then the old policy stays."""
        policy = self.settings.policy
        if policy is None or policy.file is None:
            _log.info("no policy file is set, so there is none to read again")
            return
        try:
            self._invoker.policy = self._read_policy()
        except ConfigError as error:
            self._note("policy", error)
            raise
        self._problems = [found for found in self._problems if found.code != "policy"]
        written = self._invoker.policy.written
        rules = f"{len(written.rules)} rule{'' if len(written.rules) == 1 else 's'}"
        _log.info("the policy was read again: default %s, %s", written.default, rules)
        self.catalog.version += 1
        if self.bus is not None:
            self.bus.refresh()
        self._look_for_news()

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

    def _look_for_news(self) -> None:
        if self._engines is not None:
            self._engines.news.look()

    def _encode(self, result: Any, runtime: Runtime) -> bytes:
        data = encode(result, allow_nan=self.settings.allow_nan)
        if len(data) > runtime.max_result_bytes:
            raise TooLarge(f"the result of {runtime.name}", limit=runtime.max_result_bytes, size=len(data))
        return data

    def face_names(self, kind: str) -> FaceNames:
        """The names of all functions on faces of ``kind``; :meth:`resolve` is the way back."""
        return self._tools.face_names(kind)

    def _sinks(self) -> list[Sink]:
        sinks: list[Sink] = []
        if self._log_stream is not None:
            wanted = self.settings.log.format
            console = wanted == "console" or (wanted == "auto" and self._log_stream.isatty())
            sinks.append(
                console_log(self._log_stream, self.redactor)
                if console
                else json_log(self._log_stream, self.redactor)
            )
        if self.settings.audit.path is not None:
            self._audit = AuditFile(
                self.settings.audit.path, values=self.settings.audit.values, redact=self.redactor
            )
            sinks.append(self._audit)
        return sinks + [each(observe, self.redactor) for observe in self._contributions.observers]

    def _add_spec_kinds(self) -> None:
        for kind, mapper in self._contributions.signature_mappers.items():
            if kind not in spec_kinds():  # another host in this process has the plugin's kind already
                self._unregister.append(register_spec_kind(kind, mapper))

    async def _keep_looking_for_a_tracer(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._invoker.tracing.refresh()

    async def _start_folder(self) -> None:
        if self.folder is None:
            self._invoker.not_yet = ""
            return
        secrets = Secrets(
            folder=self.settings.secrets.folder,
            env_prefix=self.settings.secrets.env_prefix,
            stores=self._contributions.secrets,
            engine_stores=self._contributions.engine_secrets,
            redactor=self.redactor,
        )
        loop = asyncio.get_running_loop()

        def changed(path: Path) -> None:
            if self._engines is not None:
                with suppress(RuntimeError):  # the loop has closed meanwhile
                    loop.call_soon_threadsafe(self._engines.functions_changed, path)

        def failed(record: EngineRecord, reason: str, cause: BaseException | None) -> None:
            if self._engines is not None:
                with suppress(RuntimeError):  # the loop has closed meanwhile
                    loop.call_soon_threadsafe(self._engines.engine_failed, record, reason, cause)

        def opening(path: Path, doing: str) -> None:
            if self._engines is not None:
                with suppress(RuntimeError):  # the loop has closed meanwhile
                    loop.call_soon_threadsafe(self._engines.engine_opening, path, doing)

        self._engines = Engines(
            self.catalog,
            folder_loader(
                self.registry,
                secrets,
                self.settings,
                self.folder,
                changed,
                failed,
                opening,
                ahead=self._ahead,
                agents=self.agents,
                lacks=self._lacks,
            ),
            self.folder,
            open_timeout=self.settings.open_timeout,
            drain_seconds=self.settings.drain_seconds,
        )
        try:
            self._following = Following(self.folder, self._engines, self._policy_file(), self._policy_seen)
            self._engines.news.also(lambda: unknown_faces(self.policy, self._contributions.faces))
            await self._following.load()
            await self._engines.opened(self.settings.open_timeout + 1.0, patient=not self._watch)
            self._engines.news.start()
        finally:
            self._invoker.not_yet = ""
        if self._watch:
            self._following.start(self._policy_changed)

    def _policy_file(self) -> Path | None:
        policy = self.settings.policy
        return policy.file.absolute() if policy is not None and policy.file is not None else None

    def _read_policy(self) -> Policy:
        bus = self._databus
        if bus is None or isinstance(bus, str):
            return policy_for(self.settings)
        return policy_for(self.settings, allow_unsigned=bus.allow_unsigned, reachable=not bus.loopback)

    def _policy_changed(self) -> None:
        try:
            self.reload_policy()
        except ConfigError as error:
            _log.error("the policy file is wrong and the old policy stays: %s", error)

    def _note(self, code: str, error: ConfigError) -> None:
        self._problems = [found for found in self._problems if found.code != code]
        self._problems += error_diagnostics(error, code)

    def _check_bus(self, *, known: bool) -> None:
        """Tell mistakes that show without joining. ``known``: the plugins are those that are installed."""
        if self._databus is None or self.settings.databus.enabled is False:
            return
        from enginehost.databus.config import config_for
        from enginehost.databus.preflight import require_usable

        config = config_for(self._databus, self.settings)
        if config is not None:
            require_usable(config, (lambda: collect(PluginRegistry()).transports) if known else None)

    async def _start_bus(self) -> None:
        from enginehost.databus import Databus
        from enginehost.databus.config import config_for

        config = config_for(self._databus, self.settings)
        if config is None:
            return

        bus = Databus(self, config, self._contributions.transports)
        try:
            await bus.start()
        except EngineHostError as error:
            # What was asked for by name and does not exist is a mistake; no bus at all may be as well.
            asked = self._databus != "auto" or self.settings.databus.enabled is True
            if asked or isinstance(error, ConfigError):
                raise
            _log.warning("databus unavailable: %s", error.message, extra=IN_PROBLEMS)
            hint = "run with --no-bus, or see `enginehost doctor` and `enginehost databus`"
            problem = ConfigError(f"databus unavailable: {error.message}", hint=hint)
            self._note("databus", problem)
        else:
            self.bus = bus

    async def _drained(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._invoker.in_flight and loop.time() < until:  # noqa: ASYNC110 - an event would cost each call
            await asyncio.sleep(0.01)

    async def _close_engines(self) -> None:
        for engine_id in tuple(self._added):
            try:
                await self.remove_engine(engine_id)
            except Exception:  # noqa: BLE001 - the plugin boundary: one engine's close must not stop the others
                _log.exception("engine %s did not close cleanly", engine_id)
        if self._engines is not None:
            await self._engines.close()
