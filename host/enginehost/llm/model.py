"""The contract of a model engine: rows in, rows out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from enginehost.engine import EngineContext, Function
from enginehost.llm.message import Message
from enginehost.names import face_name
from enginehost.signature import FunctionSignature

if TYPE_CHECKING:
    from pydantic import BaseModel

Rows = Callable[[], AsyncIterable[Message]]
"""Begins the rows of a context anew: a retry builds its body again from the first one.

They come in a fixed order: ``system`` rows, then the rest. Rows whose type a provider has no place for
(``approval``, ``compaction``) are not among them, and every tool call has its result. An engine whose writer
can have passages (:class:`~enginehost.llm.body.PlainWriter`) hands the function itself to
:func:`~enginehost.llm.body.written`, and has no more to do.
"""


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Which tools a model may or must call: ``auto``, ``none``, ``required``, or ``tool`` with a name."""

    kind: str = "auto"
    name: str = ""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What is asked of a model besides the rows.

    ``model`` is an exact id of the provider's. ``tools`` have the names that the model shall see in ``names``
    (by the function's name). ``schema`` asks for an answer of this JSON Schema (a ``data`` message).
    ``reasoning`` is ``low``, ``medium``, ``high`` or empty. ``cache``: hint to the provider that the
    beginning of this context comes again. ``timeout`` seconds bound the wait for the next byte. ``extra``
    goes into the provider's request as it is.
    """

    model: str
    tools: Sequence[FunctionSignature] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    parallel_tools: bool = True
    schema: Mapping[str, Any] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    stop: Sequence[str] = ()
    reasoning: str = ""
    cache: bool = True
    timeout: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def shown(self, tool: str) -> str:
        """The name under which the provider knows a function, also one of an earlier turn."""
        return self.names.get(tool) or face_name(tool, "openai")


@runtime_checkable
class IModelEngine(Protocol):
    """A model engine (``ENGINE_TYPE`` MODEL): one smss file, one provider with one default model.

    The constructor takes ``(context, config)`` as that of a function engine does.
    """

    context: EngineContext

    async def open(self) -> None:
        """Make ready."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...

    @property
    def default_model(self) -> str:
        """The model that the file names, perhaps a part of an id; empty where it names none."""
        ...

    async def models(self) -> Sequence[str]:
        """The ids that the provider lists; empty where it lists none."""
        ...

    def stream(self, rows: Rows, request: ModelRequest) -> AsyncGenerator[Message, None]:
        """The answer: pieces of ``text`` and ``reasoning`` as they come, tool calls whole, ids made here.

        A tool has the name of ``request.names`` on the provider's wire; a call of it is given with that name,
        and the service puts the function's own in its place. (Rows have the function's own.)

        The last message has the ``usage``. Closing the generator closes the provider's connection. Raises
        :class:`~enginehost.errors.ExecutionFailed` (``detail``: ``status``, ``retryable``, ``retry_after``),
        :class:`~enginehost.errors.Overloaded` for a rate limit, and
        :class:`~enginehost.errors.EngineUnavailable` where there is no way to the provider. A stream that
        ends without the provider's terminal event is an error. One call is one try: retries, breaker and
        fallback are the service's.
        """
        ...


class AbstractModelEngine:
    """Base class of model engines: it offers no function, and its file needs no ``FUNCTION_NAME``.

    Subclasses set :attr:`config_model` to a subclass of :class:`~enginehost.llm.config.ModelConfig` and write
    :meth:`stream`, and :meth:`models` where the provider lists what it has.
    """

    config_model: ClassVar[type[BaseModel] | None] = None
    """The pydantic model of this engine's own smss keys."""

    accepts_any_key: ClassVar[bool] = False
    """Whether a file may hold keys that only the engine itself knows."""

    requires_signature: ClassVar[bool] = False
    """A model has no function, so its file declares none."""

    open_seconds: ClassVar[float | None] = None
    """How long ``open`` may take; ``None``: what the host's settings say."""

    def __init__(self, context: EngineContext, config: Any = None) -> None:
        self.context = context
        self.config = config

    async def open(self) -> None:
        """Nothing to make ready."""

    async def close(self) -> None:
        """Nothing to let go of."""

    def functions(self) -> Sequence[Function]:
        """A model is no function."""
        return ()

    def watched(self) -> Sequence[Path]:
        """No further files."""
        return ()

    @property
    def trouble(self) -> str:
        """What hinders a model that serves, in words for every caller; empty while nothing does."""
        return ""

    @property
    def who(self) -> str:
        """What errors call the engine: by its display name, alias or id."""
        return self.context.display_name or self.context.alias or self.context.engine_id

    @property
    def default_model(self) -> str:
        """The file's ``MODEL``."""
        return str(getattr(self.config, "model", ""))

    async def models(self) -> Sequence[str]:
        """The provider lists none."""
        return ()

    def stream(self, rows: Rows, request: ModelRequest) -> AsyncGenerator[Message, None]:
        """See :meth:`IModelEngine.stream`."""
        raise NotImplementedError(f"{type(self).__name__} must define stream(self, rows, request)")
