"""Which agent a question is for: the one place where interfaces, the chat and HTTP have it from."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from enginehost.databus import BusAgent
from enginehost.errors import EngineUnavailable, InvalidRequest
from enginehost.narrowing.document import document_of
from enginehost.narrowing.index import Index
from enginehost.signature import FunctionSignature

Classifier = Callable[[str, Sequence[BusAgent]], BusAgent | Awaitable[BusAgent | None] | None]
"""Chooses one of several agents for a question; ``None`` where it knows none."""

MOST_CONVERSATIONS = 10_000
"""Conversations of which it is remembered whose they are."""
_MOST_NAMED = 10


class Because(StrEnum):
    """Why an agent was chosen."""

    NAMED = "named"
    CONVERSATION = "conversation"
    DEFAULT = "default_capable"
    ONLY = "only"
    CLASSIFIER = "classifier"

    @property
    def words(self) -> str:
        """The reason, as one says it."""
        return _WORDS[self]


_WORDS = {
    Because.NAMED: "it was named",
    Because.CONVERSATION: "it has answered in this conversation",
    Because.DEFAULT: "it answers by default",
    Because.ONLY: "there is no other agent",
    Because.CLASSIFIER: "what it says of itself fits best",
}


class Routed(NamedTuple):
    """The agent for a question, and why it."""

    agent: BusAgent
    because: Because


def named(agents: Sequence[BusAgent], text: str) -> BusAgent | None:
    """The agent that people mean by ``text``: exact names go before those that differ in case."""
    for same in (str, str.casefold):
        for agent in agents:
            if any(same(name) == same(text) for name in _names(agent)):
                return agent
    return None


def _names(agent: BusAgent) -> Iterable[str]:
    return (agent.id, agent.function, agent.name, agent.tool, agent.service)


class Router:
    """Chooses agents, and remembers who has answered in which conversation.

    ``classifier`` takes the place of :func:`by_words`.
    """

    def __init__(self, classifier: Classifier | None = None) -> None:
        self._classifier = classifier or by_words
        self._answering: OrderedDict[Hashable, str] = OrderedDict()

    async def route(
        self, text: str, agents: Sequence[BusAgent], conversation: Hashable | None = None
    ) -> Routed:
        """One of ``agents`` for a question that names none.

        Whoever has answered in the ``conversation``, as long as it is there. Else the one that answers by
        default (``default_capable``), where it alone does; of several such the classifier's choice, or the
        first where it knows none. Where none does, the only agent there is, or the classifier's choice among
        all. Raises :class:`~enginehost.errors.EngineUnavailable` where there is no agent, and
        :class:`~enginehost.errors.InvalidRequest` where none fits.
        """
        if not agents:
            raise EngineUnavailable("there is no agent to ask", reason="no-agent")
        before = self._answering.get(conversation) if conversation is not None else None
        routed = next((Routed(one, Because.CONVERSATION) for one in agents if one.id == before), None)
        routed = routed or await self._chosen(text, agents)
        if conversation is not None:
            self.answers(conversation, routed.agent)
        return routed

    def answers(self, conversation: Hashable, agent: BusAgent) -> None:
        """Remember that ``agent`` answers in the conversation."""
        self._answering[conversation] = agent.id
        self._answering.move_to_end(conversation)
        if len(self._answering) > MOST_CONVERSATIONS:
            self._answering.popitem(last=False)

    async def _chosen(self, text: str, agents: Sequence[BusAgent]) -> Routed:
        willing = [one for one in agents if one.default_capable]
        if len(willing) == 1:
            return Routed(willing[0], Because.DEFAULT)
        if len(agents) == 1:
            return Routed(agents[0], Because.ONLY)
        chosen = self._classifier(text, willing or agents)
        if inspect.isawaitable(chosen):
            chosen = await chosen
        if chosen is not None:
            return Routed(chosen, Because.CLASSIFIER)
        if willing:
            return Routed(willing[0], Because.DEFAULT)
        raise nobody_fits(agents)


def nobody_fits(agents: Sequence[BusAgent]) -> InvalidRequest:
    """The error where no agent is for a question; it names those that there are."""
    names = [one.name[:100] for one in agents[:_MOST_NAMED]]
    more = f", and {len(agents) - len(names)} more" if len(agents) > len(names) else ""
    return InvalidRequest(
        f"no agent fits this question, and none answers by default; name one: {', '.join(names)}{more}",
        detail={"reason": "no-agent-fits", "agents": names},
    )


def by_words(text: str, agents: Sequence[BusAgent]) -> BusAgent | None:
    """The agent whose name, description, specializations, capabilities and tags fit the question best."""
    index = Index()
    for agent in agents:
        index.put(agent.id, document_of(_as_function(agent)))
    ranked = index.rank(text)
    best = ranked[0][0] if ranked else None
    return next((one for one in agents if one.id == best), None)


def _as_function(agent: BusAgent) -> FunctionSignature:
    subjects = (*agent.specializations, *agent.capabilities, *agent.tags)
    return FunctionSignature(agent.name, agent.description, tags=subjects)
