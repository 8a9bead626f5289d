"""An agent as a Python class with typed methods as tools.

::

    class Shop(Agent):
        \"\"\"Answers questions about orders.\"\"\"

        model = "gpt"
        instructions = "You help customers of a shop."

        @tool(read_only=True)
        async def order(self, number: int) -> dict[str, Any]:
            \"\"\"Look up an order.\"\"\"

A smss file offers it (``ENGINE_CLASS = shop:Shop``), and so does a program (:meth:`Agent.spec` is what
:meth:`enginehost.agents.contract.Agents.register` takes).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from pydantic import ValidationError

from enginehost.agents.agent_engine import AgentEngine
from enginehost.agents.authored import born_with, in_host, run_hook
from enginehost.agents.building import build
from enginehost.agents.config import AgentConfig
from enginehost.agents.typed_tools import tools_of
from enginehost.agents.without_effect import attributes_without_effect, keys_without_effect
from enginehost.engine import EngineContext, Function
from enginehost.errors import ConfigError
from enginehost.value_faults import fault_text

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Agent(AgentEngine):
    """Base class. What a file says by keys, a class says by attributes of their names in lower case.

    (``model``, ``instructions``, ``tools``, ``stages``, …: :class:`~enginehost.agents.config.AgentConfig`.)
    The keys of a file that names the class go before them. ``stages`` may hold stages themselves, and
    ``harness`` be one. The agent's name is the file's, else :attr:`name`, else the class's in snake case; it
    is described by the class's docstring. On the databus it stands under :attr:`service_name`, by default
    that of its host, with :attr:`tags`.

    A class with an ``__init__`` of its own takes no parameters, or ``(context, config)`` as the host gives
    them, and hands them on.
    """

    config_model = AgentConfig
    name: str = ""
    service_name: str = ""
    tags: Sequence[str] = ()

    def __init__(self, context: EngineContext | None = None, config: AgentConfig | None = None) -> None:
        cls = type(self)
        context, config = born_with(context, config)
        super().__init__(context or EngineContext(cls.__name__), config)
        self._begun = False
        self.own_name = self.name or _HUMP.sub("_", cls.__name__).lower()
        self.described = _first_paragraph(cls)
        self.said = _said(cls, config)
        self.doubts = (
            *attributes_without_effect(cls, Agent, AgentConfig.model_fields),
            *(text for _, text in keys_without_effect(self.context.properties)),
        )
        for text in self.doubts:
            self.context.log.warning("%s", text)
        built = build(
            self.said,
            self.context,
            name=self.own_name,
            description=self.described,
            functions=tools_of(self, reserved=Agent),
        )
        self.be(built, streams=self.said.stream)

    @classmethod
    def in_host(cls, context: EngineContext, config: Any = None) -> Self:
        """For a host: make one of a file."""
        return in_host(cls, context, config)

    def on_start(self) -> object:
        """Before the first turn; may be a coroutine. What it raises, the agent fails with."""
        return None

    def on_stop(self) -> object:
        """After the last turn; may be a coroutine."""
        return None

    async def begin_agent(self) -> None:
        """Have :meth:`on_start` make ready what the tools need."""
        await run_hook(self, "on_start")
        self._begun = True

    async def open(self) -> None:
        """Begin, and have the host open its database, unless that is left to the first call."""
        await self.begin_agent()
        if not super().opens_at_once:
            await super().open()

    @property
    def opens_at_once(self) -> bool:
        """Never: :meth:`on_start` may take its time."""
        return False

    async def close(self) -> None:
        """Have :meth:`on_stop` let go of what :meth:`on_start` took."""
        if self._begun:
            self._begun = False
            await run_hook(self, "on_stop")
        await super().close()

    def functions(self) -> tuple[Function, ...]:
        """The agent as a function, under its service."""
        return _under(self.service_name, self.tags, super().functions())

    def as_agent(self) -> dict[str, Any] | None:
        """What another process has to know to offer it; nothing where it answers without a session.

        Raises ``ConfigError`` for what cannot go there.
        """
        for key in ("stages", "context_stages", "harness"):
            value = getattr(self.said, key)
            if any(callable(one) or not isinstance(one, str | Mapping) for one in _listed(value)):
                hint = f"{key} = ['package.module:function'], or serve the agent in a program of your own"
                text = f"{key} of {type(self).__name__} is Python that runs in the host: name it instead"
                raise ConfigError(text, hint=hint, reason="not-allowed")
        return {
            "config": self.said.model_dump(mode="json"),
            "name": self.own_name,
            "about": self.described,
            "service": self.service_name,
            "tags": list(self.tags),
            "doubts": list(self.doubts),
        }


class WorkerAgent(AgentEngine):
    """Stands in the host for an :class:`Agent` whose tools run in a process of its own.

    ``told`` is what :meth:`Agent.as_agent` gave there.
    """

    def __init__(
        self, context: EngineContext, told: Mapping[str, Any], functions: Sequence[Function]
    ) -> None:
        config = AgentConfig.model_validate(told["config"])
        super().__init__(context, config)
        built = build(config, context, name=told["name"], description=told["about"], functions=functions)
        self.be(built, streams=config.stream)
        self.doubts = tuple(told["doubts"])
        self._service, self._tags = str(told["service"]), tuple(told["tags"])

    def functions(self) -> tuple[Function, ...]:
        """The agent as a function, under its service."""
        return _under(self._service, self._tags, super().functions())


def _under(service: str, tags: Sequence[str], functions: Iterable[Function]) -> tuple[Function, ...]:
    return tuple(
        replace(one, service=service, signature=replace(one.signature, tags=_joined(one, tags)))
        for one in functions
    )


def _joined(function: Function, tags: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*function.signature.tags, *tags)))


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _said(cls: type[Agent], config: AgentConfig | None) -> AgentConfig:
    """The attributes of a class, and before them the keys of a file."""
    said = {name: getattr(cls, name) for name in AgentConfig.model_fields if hasattr(cls, name)}
    said = {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}
    if config is not None:
        said |= {name: getattr(config, name) for name in config.model_fields_set}
    try:
        return AgentConfig.model_validate(said)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        text = "; ".join(dict.fromkeys(_fault(cls, fault) for fault in faults))
        raise ConfigError(text, reason="bad-attribute") from None


def _fault(cls: type[Agent], fault: Mapping[str, Any]) -> str:
    """Of a value that may be of several types, pydantic tells once for each; the attribute is what counts."""
    name = str(fault["loc"][0]) if fault["loc"] else ""
    return f"{cls.__name__}.{name}: {fault_text(fault)}"


def _first_paragraph(cls: type[Agent]) -> str:
    """Of the class's own docstring."""
    text = (vars(cls).get("__doc__") or "").strip().partition("\n\n")[0]
    return " ".join(text.split())
