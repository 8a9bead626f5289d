"""The contract of an engine: what a plugin implements, and what it is given.

An author of a one-function engine subclasses :class:`AbstractFunctionEngine` and writes
``execute``. An engine with several functions overrides :meth:`AbstractFunctionEngine.functions`.
This module needs nothing outside the standard library, so that it also loads in worker processes. What
an engine is made of (calls, functions) has modules of its own; engines take all of it from here.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from enginehost.call import CURRENT, Call, Waited, current_call
from enginehost.errors import ConfigError, EngineUnavailable
from enginehost.function import Approval, Function, Limits, Run, RunMode, run_mode
from enginehost.questions import Question, form, roots, sample
from enginehost.signature import Annotations, FunctionSignature, without_parameters

if TYPE_CHECKING:
    from pydantic import BaseModel


class EngineState(StrEnum):
    """Where an engine is in its life; visible on every face."""

    LOADING = "loading"
    READY = "ready"
    STALE = "stale"
    """A newer version of the file failed; the last good one serves."""
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    """Nobody here provides the class that the file names."""
    CONFLICT = "conflict"
    """It could serve, but other engines have every name that it declares."""
    CLOSING = "closing"


TRANSITIONS: Mapping[EngineState, frozenset[EngineState]] = {
    EngineState.LOADING: frozenset({EngineState.READY, EngineState.FAILED, EngineState.CLOSING}),
    EngineState.READY: frozenset(
        {EngineState.STALE, EngineState.FAILED, EngineState.CONFLICT, EngineState.CLOSING}
    ),
    EngineState.STALE: frozenset({EngineState.READY, EngineState.FAILED, EngineState.CLOSING}),
    EngineState.FAILED: frozenset({EngineState.LOADING, EngineState.READY, EngineState.CLOSING}),
    EngineState.UNSUPPORTED: frozenset({EngineState.CLOSING}),
    EngineState.CONFLICT: frozenset(
        {EngineState.READY, EngineState.STALE, EngineState.FAILED, EngineState.CLOSING}
    ),
    EngineState.CLOSING: frozenset(),
}
"""Which state may follow which."""


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """One parameter as SEMOSS names it (``parameterName``, ``parameterType``, ``parameterDescription``)."""

    name: str
    type: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class HostAccess:
    """What the host lets an engine do; a dropped file cannot grant itself any of it."""

    in_process_python: bool = False
    private_networks: bool = True
    max_workers: int | None = None
    """Worker processes at once; ``None`` leaves it to the engines."""
    state_dir: Path | None = None
    """Where engines may keep what they can make again; ``None``: in a temporary place."""
    max_programs: int = 64
    """Programs at once that engines start for a call each."""
    ahead: bool = True
    """Whether ``open`` may do what takes long, such as an installation. Off (a command looks at a folder
    once): it is left to :meth:`AbstractFunctionEngine.before_first_call`."""


def _nothing_changed() -> None:
    """The default of :attr:`EngineContext.changed`."""


def _nothing_failed(reason: str, cause: BaseException | None = None) -> None:
    """The default of :attr:`EngineContext.failed`."""


def _no_warning(key: str, code: str, message: str, hint: str = "") -> None:
    """The default of :attr:`EngineContext.warn`."""


def _nothing_concealed(secret: str) -> None:
    """The default of :attr:`EngineContext.conceal`."""


def _nobody_waits(doing: str) -> None:
    """The default of :attr:`EngineContext.opening`."""


async def no_sessions() -> Any:
    """The default of :attr:`EngineContext.agents`."""
    raise EngineUnavailable("there are no sessions here", state="failed", reason="no host runs this engine")


def no_models(name: str = "") -> Any:
    """The default of :attr:`EngineContext.llm`."""
    raise EngineUnavailable("there are no models here", state="failed", reason="no host runs this engine")


def _nothing_is_missing(spec: Any) -> str:
    """The default of :attr:`EngineContext.lacks`."""
    return ""


@dataclass(frozen=True, slots=True)
class EngineContext:
    """What the host gives an engine at birth.

    ``signature``, ``limits``, ``bind``, ``approval`` and ``coerce_text`` come from the file;
    ``properties`` are the file's own keys, upper-cased, with substituted values.

    ``changed``, on any thread: the engine's functions or watched files are not as they were. ``failed``,
    on any thread, with the reason: the engine cannot serve any more. Its functions are withdrawn and its
    state is *failed* until it calls ``changed``, or a file that it watches changes and it is made anew.
    ``failed(reason, cause)`` has the traceback of the exception ``cause`` in the log too.

    ``warn(key, code, message, hint)`` adds a warning to the file's findings; only while the engine is made.
    ``reloading``: the engine is to replace one that was there before. What it raises in ``open`` then costs
    nothing, since the old one stays; so that is the time to find out whether it works.
    ``opening(text)``, while ``open`` runs: what it does that takes long; people read it as the reason of the
    state *loading*. (How long it may take: :attr:`AbstractFunctionEngine.open_seconds`.)
    ``conceal`` tells the host a secret that it does not know (a credential that stands in the file itself):
    from then on no error and no line of the log shows it. ``redact`` takes what the host knows out of a
    text, also what the text's end cuts: for an engine that shortens what it quotes in an error. (Whole
    errors are looked through by the host.)
    ``await agents()`` gives the host's service of sessions (:class:`enginehost.agents.contract.Agents`), and
    opens its database where nobody has needed it yet.
    ``llm(name)`` gives the service that talks to a model engine (:class:`enginehost.llm.service.LLMService`),
    by id, alias, display name or a part of the model's id; without a name, the only one there is. On the
    event loop only, and when it is needed: while the folder loads, the model's file may not be open yet.
    What is asked while a call runs is bounded by that call's deadline, and traced as a part of it.
    """

    engine_id: str
    display_name: str = ""
    path: Path | None = None
    alias: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    signature: FunctionSignature | None = None
    limits: Limits = field(default_factory=Limits)
    bind: Mapping[str, Any] = field(default_factory=dict, repr=False)
    approval: Approval = Approval.NEVER
    coerce_text: bool = False
    access: HostAccess = field(default_factory=HostAccess)
    changed: Callable[[], None] = _nothing_changed
    failed: Callable[..., None] = _nothing_failed
    warn: Callable[..., None] = _no_warning
    reloading: bool = False
    opening: Callable[[str], None] = _nobody_waits
    conceal: Callable[[str], None] = _nothing_concealed
    redact: Callable[[str], str] = str
    agents: Callable[[], Awaitable[Any]] = no_sessions
    llm: Callable[..., Any] = no_models
    lacks: Callable[[Any], str] = _nothing_is_missing
    """What the spec of an agent names that the host has not now, in words; empty where it has all."""

    @property
    def folder(self) -> Path:
        """The folder the file lies in; relative paths in it start here."""
        return self.path.parent if self.path else Path()

    @property
    def log(self) -> logging.Logger:
        """This engine's logger."""
        return logging.getLogger(f"enginehost.engine.{self.engine_id}")

    def function(self, run: Run, mode: RunMode | None = None, **signature: Any) -> Function:
        """A function with what the file says; ``signature`` replaces single fields of it.

        What the file binds is taken out of the parameters, whoever described them.
        """
        base = self.signature or FunctionSignature(self.engine_id)
        mode = mode or run_mode(run)
        if signature or mode.streams != base.streaming:
            base = replace(base, **{"streaming": mode.streams, **signature})
        if self.bind:
            base = replace(base, parameters=without_parameters(base.parameters, self.bind))
        return Function(
            signature=base,
            run=run,
            mode=mode,
            limits=self.limits,
            bind=self.bind,
            approval=self.approval,
            coerce_text=self.coerce_text,
        )


@runtime_checkable
class IFunctionEngine(Protocol):
    """The contract between the host and an engine.

    The constructor takes ``(context, config)``; it may raise :class:`~enginehost.errors.ConfigError`
    and runs on the loader's thread, so it may look at files but must not wait for anything.
    """

    context: EngineContext

    async def open(self) -> None:
        """Make ready; may be slow or fail. The host counts the engine *loading* until it returns."""
        ...

    async def close(self) -> None:
        """Let go of everything. Called once, after the last call has ended or the drain time is over."""
        ...

    def functions(self) -> Iterable[Function]:
        """The functions there are now."""
        ...

    def watched(self) -> Sequence[Path]:
        """Files besides the smss file whose change means *load again*."""
        ...


class AbstractFunctionEngine:
    """Base class of engines: one function, declared by the file, run by ``execute``.

    Subclasses write ``execute(self, parameters)`` or ``execute(self, parameters, call)`` as ``def``,
    ``async def``, generator or async generator. ``parameters`` are already validated.
    """

    config_model: ClassVar[type[BaseModel] | None] = None
    """The pydantic model of this engine's own smss keys; field ``api_key`` reads key ``API_KEY``."""

    accepts_any_key: ClassVar[bool] = False
    """Whether a file may hold keys that only the engine itself knows (no unknown-key warnings then)."""

    requires_signature: ClassVar[bool] = True
    """Whether a file without ``FUNCTION_NAME`` is an error."""

    name_key: ClassVar[str] = ""
    """A key of the engine's own that names the function where the file has no ``FUNCTION_NAME``."""

    completes_signature: ClassVar[bool] = False
    """Whether the engine finds out what the file does not say (description, parameters), and itself warns of
    what is still missing; the host then does not."""

    open_seconds: ClassVar[float | None] = None
    """How long ``open`` may take; ``None``: what the host's settings say."""

    def __init__(self, context: EngineContext, config: Any = None) -> None:
        self.context = context
        self.config = config

    async def open(self) -> None:
        """Nothing to make ready."""

    async def before_first_call(self) -> None:
        """Nothing was left to the first call (see :attr:`HostAccess.ahead`)."""

    async def close(self) -> None:
        """Nothing to let go of."""

    def watched(self) -> Sequence[Path]:
        """No further files."""
        return ()

    @property
    def opens_at_once(self) -> bool:
        """Whether :meth:`open` has nothing to do: then it is not called, and a large folder loads faster."""
        return type(self).open is AbstractFunctionEngine.open

    @property
    def trouble(self) -> str:
        """What hinders an engine that serves, in words for every caller; empty while nothing does.

        It is asked for when somebody looks, and shown as the reason beside the state *ready*.
        """
        return ""

    def functions(self) -> Iterable[Function]:
        """The one function that the file declares."""
        execute: Callable[..., Any] = self.execute
        mode, takes_call = _shape(getattr(execute, "__func__", execute), execute)
        if takes_call:
            return (self.context.function(execute, mode),)
        return (self.context.function(_without_call(execute), mode),)

    def execute(self, parameters: dict[str, Any], *further: Any, **none: Any) -> Any:
        """Do the work. Exceptions go to the host, which makes them ``ExecutionFailed``.

        Written as ``execute(self, parameters)`` or ``execute(self, parameters, call)``; the further
        parameters here only let type checkers accept both.
        """
        raise NotImplementedError(f"{type(self).__name__} must define execute(self, parameters)")

    # SEMOSS's names for what the signature says.

    @property
    def signature(self) -> FunctionSignature:
        """The signature of the engine's first function."""
        return next(iter(self.functions())).signature

    def get_function_name(self) -> str:
        """The function's name."""
        return self.signature.name

    def get_function_description(self) -> str:
        """What the function does, for people and models."""
        return self.signature.description

    def get_parameters(self) -> list[FunctionParameter]:
        """The parameters in declared order."""
        signature = self.signature
        return [
            FunctionParameter(
                name=name,
                type=_type_word(schema),
                description=str(schema.get("description", "")) if isinstance(schema, Mapping) else "",
                required=name in signature.required,
            )
            for name, schema in signature.properties.items()
        ]

    def get_required_parameters(self) -> list[str]:
        """The names a caller must give."""
        return list(self.signature.required)

    def get_function_definition_json(self) -> dict[str, Any]:
        """``{"name", "description", "parameters"}`` with a valid JSON Schema.

        SEMOSS puts ``required`` beside the schema, as a list in a list; here it stands inside.
        """
        signature = self.signature
        return {
            "name": signature.name,
            "description": signature.description,
            "parameters": dict(signature.parameters),
        }

    def get_function_defintion_json(self) -> dict[str, Any]:
        """SEMOSS's spelling of :meth:`get_function_definition_json`."""
        return self.get_function_definition_json()

    def build_openai_function_engine_tool_map(self) -> dict[str, Any]:
        """The function as an OpenAI Chat Completions tool."""
        from enginehost.specs import to_spec

        return to_spec(self.signature, "openai")

    def build_bedrock_tool_spec(self) -> dict[str, Any]:
        """The function as a Bedrock Converse ``toolSpec``."""
        from enginehost.specs import to_spec

        return to_spec(self.signature, "bedrock")


def _type_word(schema: Any) -> str:
    declared = schema.get("type", "") if isinstance(schema, Mapping) else ""
    return declared if isinstance(declared, str) else "|".join(str(part) for part in declared)


_shapes: dict[Any, tuple[RunMode, bool]] = {}


def _shape(definition: Any, execute: Callable[..., Any]) -> tuple[RunMode, bool]:
    """How ``execute`` runs and whether it takes the call; looked up once per class."""
    known = _shapes.get(definition)
    if known is None:
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        taken = sum(p.kind in positional for p in inspect.signature(execute).parameters.values())
        known = _shapes[definition] = (run_mode(execute), taken >= 2)
    return known


def _without_call(execute: Callable[..., Any]) -> Run:
    def run(parameters: dict[str, Any], call: Call) -> Any:
        return execute(parameters)

    return run


def make_engine(engine_class: Callable[..., Any], context: EngineContext, config: Any) -> Any:
    """An engine of a class. Raises :class:`ConfigError` where its constructor takes something else.

    A class whose constructor has a shape of its own (a service) says by ``in_host`` how it is made.
    """
    make: Callable[..., Any] = getattr(engine_class, "in_host", engine_class)
    try:
        return make(context, config)
    except TypeError as error:
        try:
            signature = inspect.signature(engine_class)
        except (TypeError, ValueError):
            raise error from None
        try:
            own_shape = make is not engine_class and not signature.parameters
            signature.bind(*(() if own_shape else (context, config)))
        except TypeError:
            text = f"{getattr(engine_class, '__name__', engine_class)} cannot be made: it takes {signature}"
            hint = "write def __init__(self, context, config): super().__init__(context, config)"
            raise ConfigError(text, hint=hint, reason="bad-constructor") from error
        raise


__all__ = [
    "CURRENT",
    "TRANSITIONS",
    "AbstractFunctionEngine",
    "Annotations",
    "Approval",
    "Call",
    "EngineContext",
    "EngineState",
    "Function",
    "FunctionParameter",
    "FunctionSignature",
    "HostAccess",
    "IFunctionEngine",
    "Limits",
    "Question",
    "Run",
    "RunMode",
    "Waited",
    "current_call",
    "form",
    "make_engine",
    "roots",
    "run_mode",
    "sample",
]
