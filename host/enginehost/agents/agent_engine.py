"""The base of engines that are agents: the host offers them to sessions by the name of their function."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from enginehost.agents.asking import ask, ask_stream
from enginehost.agents.building import Built
from enginehost.agents.contract import AgentSpec
from enginehost.agents.facts import AgentFacts
from enginehost.agents.offers import agent_signature
from enginehost.agents.skills import Skill
from enginehost.engine import AbstractFunctionEngine, Call, Function, RunMode

_AFTER_THE_TURN = 10.0
"""Seconds that a call has beyond its turn: to read the answer of one that has used up its time."""


class AgentEngine(AbstractFunctionEngine):
    """An agent. A subclass sets :attr:`spec` when it is made, or calls :meth:`be`.

    Its function takes ``message`` and ``conversation_id``, and gives the answer's text; with
    :attr:`streams` item by item, as the agent says it. It may take as long as a turn, where the file says
    nothing (``TIMEOUT_SECONDS``).
    """

    requires_signature: ClassVar[bool] = False
    completes_signature: ClassVar[bool] = True
    spec: AgentSpec
    facts: AgentFacts = AgentFacts()
    skill_library: Mapping[str, Skill] = {}
    streams: bool = False
    doubts: tuple[str, ...] = ()
    """What stands in its class or file and does nothing, in sentences."""
    _files: tuple[Path, ...] = ()

    def be(self, built: Built, *, streams: bool) -> None:
        """Be the agent that was built of keys and files."""
        self.spec, self.skill_library, self.version = built.spec, built.skills, built.version
        self.streams, self.facts, self._files = streams, built.facts, tuple(built.files)

    def watched(self) -> Sequence[Path]:
        """AGENT.md, the skills, and what else the agent was made of."""
        return self._files

    @property
    def opens_at_once(self) -> bool:
        """Whether the database is left to the first call: a command looks at the folder once."""
        return not self.context.access.ahead

    async def open(self) -> None:
        """Have the host open its database, and take turns up that wait there."""
        await self.context.agents()

    @property
    def trouble(self) -> str:
        """What the agent names that there is not, and what does nothing."""
        return "; ".join(filter(None, (*self.doubts, self.context.lacks(self.spec))))

    def functions(self) -> tuple[Function, ...]:
        """The agent as a function."""
        run = self._stream if self.streams else self._answer
        mode = RunMode.ASYNC_STREAM if self.streams else RunMode.ASYNC
        own = agent_signature(self.spec)
        made = self.context.function(
            run,
            mode,
            name=own.name,
            description=own.description,
            parameters=own.parameters,
            annotations=own.annotations,
            result={"type": "string"},
        )
        seconds = self.spec.limits.seconds
        if made.limits.timeout is None and seconds is not None:
            made = replace(made, limits=replace(made.limits, timeout=seconds + _AFTER_THE_TURN))
        return (made,)

    async def _answer(self, arguments: dict[str, Any], call: Call) -> str:
        agents = await self.context.agents()
        return await ask(agents, *self._said(arguments), call.caller)

    async def _stream(self, arguments: dict[str, Any], call: Call) -> AsyncGenerator[str, None]:
        agents = await self.context.agents()
        async for text in ask_stream(agents, *self._said(arguments), call.caller):
            yield text

    def _said(self, arguments: Mapping[str, Any]) -> tuple[str, str, str]:
        return self.spec.name, str(arguments["message"]), str(arguments.get("conversation_id", ""))


def agent_behind(engine: object) -> AgentEngine | None:
    """The agent that an engine is, or stands for (a class in a worker process)."""
    found = engine if isinstance(engine, AgentEngine) else getattr(engine, "agent", None)
    return found if isinstance(found, AgentEngine) else None
