"""A service: a Python class whose methods are functions.

::

    class Calculator(Service):
        \"\"\"Reckons.\"\"\"

        @tool
        async def add(self, a: int, b: int) -> int:
            \"\"\"Add two numbers.\"\"\"
            return a + b

    asyncio.run(Calculator().run())

It runs alone, as here, or inside a host (``ENGINE_CLASS = calculator:Calculator`` in a smss file).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from enginehost.agents.authored import born_with, in_host, run_hook
from enginehost.agents.typed_tools import tools_of
from enginehost.engine import AbstractFunctionEngine, EngineContext, Function
from enginehost.errors import ConfigError

if TYPE_CHECKING:
    from enginehost.databus import DatabusConfig
    from enginehost.settings import HostSettings


def _tags(where: str, *several: Sequence[str]) -> tuple[str, ...]:
    for tags in several:
        if isinstance(tags, str):
            text = f"{where}, tags: {tags!r} is a text, and tags are a list of texts"
            raise ConfigError(text, hint=f"write tags = [{tags!r}]", reason="bad-setting")
    return tuple(dict.fromkeys(tag for tags in several for tag in tags))


class Service(AbstractFunctionEngine):
    """Base class. Methods with :func:`~enginehost.tool` are its functions.

    On the databus they stand under :attr:`service_name`: what the constructor was given, else the class's
    attribute, else the class's name. :attr:`tags` are tags of all of them. The first paragraph of the class's
    docstring describes the service. A subclass may have a constructor of its own; a host that makes one of a
    file gives it nothing, so that its parameters need defaults.
    """

    requires_signature: ClassVar[bool] = False
    completes_signature: ClassVar[bool] = True
    accepts_any_key: ClassVar[bool] = True
    service_name: str = ""
    tags: Sequence[str] = ()

    def __init__(
        self,
        service_name: str | EngineContext = "",
        config: Any = None,
        *,
        tags: Sequence[str] = (),
    ) -> None:
        given = service_name if isinstance(service_name, EngineContext) else None
        context, config = born_with(given, config)
        name = service_name if isinstance(service_name, str) else ""
        self.service_name = name or type(self).service_name or type(self).__name__
        self.tags = _tags(type(self).__name__, type(self).tags, tags)
        self.description = " ".join((type(self).__doc__ or "").strip().partition("\n\n")[0].split())
        super().__init__(context or EngineContext(self.service_name), config)
        self._functions: tuple[Function, ...] = tuple(
            tools_of(self, reserved=Service, service=self.service_name, tags=self.tags)
        )
        self._begun = False

    @classmethod
    def in_host(cls, context: EngineContext, config: Any = None) -> Self:
        """For a host: make one of a file."""
        return in_host(cls, context, config)

    def on_start(self) -> object:
        """Before the first call; may be a coroutine. What it raises, the service fails with."""
        return None

    def on_stop(self) -> object:
        """After the last call; may be a coroutine."""
        return None

    async def open(self) -> None:
        """Have :meth:`on_start` make ready what the functions need."""
        await run_hook(self, "on_start")
        self._begun = True

    async def close(self) -> None:
        """Have :meth:`on_stop` let go of what :meth:`on_start` took."""
        if self._begun:
            self._begun = False
            await run_hook(self, "on_stop")

    def functions(self) -> tuple[Function, ...]:
        """The marked methods. Raises ``ConfigError`` where there is none."""
        if not self._functions:
            hint = "write @tool above each method that is to be one"
            raise ConfigError(f"{type(self).__name__} has no function", hint=hint, reason="no-function")
        return self._functions

    async def run(
        self, *, databus: DatabusConfig | None = None, settings: HostSettings | None = None
    ) -> None:
        """Offer the functions on the databus until SIGINT or SIGTERM, or until this is cancelled.

        ``settings`` are those of a host, by default what ``enginehost.yaml`` and the environment say;
        ``databus`` goes before what they say of the bus. Raises :class:`~enginehost.errors.ConfigError` for
        settings that are wrong, and :class:`~enginehost.errors.EngineUnavailable` where there is no bus.
        """
        from enginehost.genesis.alone import run_alone

        await run_alone(self, self.service_name, databus=databus, settings=settings)
