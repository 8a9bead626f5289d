"""Which agent a question is for: the one place where interfaces, the chat and HTTP have it from."""

from __future__ import annotations

import inspect
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from enginehost.databus import BusAgent
from enginehost.databus.agents_names import tool_name
from enginehost.errors import EngineUnavailable, InvalidRequest
from enginehost.narrowing.document import document_of
from enginehost.narrowing.index import Index
from enginehost.signature import FunctionSignature

Classifier = Callable[[str, Sequence[BusAgent]], BusAgent | Awaitable[BusAgent | None] | None]
"""Chooses one of several agents for a question; ``None`` where it knows none."""
Askable = Callable[[Sequence[BusAgent]], Awaitable[Sequence[BusAgent]]]
"""Of agents those that can be asked at all."""

MOST_CONVERSATIONS = 10_000
"""Conversations of which it is remembered whose they are."""
TOGETHER_SECONDS = 3.0
"""Agents that are seen first within so many seconds were there together."""
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


def named(agents: Sequence[BusAgent], text: str, before: str = "") -> BusAgent | None:
    """The agent that people mean by ``text``: exact names go before those that differ in case.

    Of several that have a name it is the one whose own it is (:attr:`BusAgent.holds
    <enginehost.databus.BusAgent>`), else the one with the id ``before``. Of a service it is the agent that
    answers by default, else the first by name. Raises :class:`~enginehost.errors.InvalidRequest`, with the
    reason ``ambiguous``, where it may be one or the other.
    """
    for same in (str, str.casefold):
        for names in (_function, _held, _id, _called):
            found = [one for one in agents if same(text) in map(same, names(one))]
            if found:
                return _one_of(found, text, before)
        served = [one for one in agents if same(one.service) == same(text)]
        if served:
            return min(served, key=lambda one: (not one.host, not one.default_capable, one.name, one.id))
    return None


def _function(agent: BusAgent) -> Iterable[str]:
    return (agent.function,)


def _held(agent: BusAgent) -> Iterable[str]:
    return agent.holds


def _id(agent: BusAgent) -> Iterable[str]:
    return (agent.id,)


def _called(agent: BusAgent) -> Iterable[str]:
    return (agent.name, agent.tool, tool_name(agent.specializations))


def _one_of(found: Sequence[BusAgent], text: str, before: str) -> BusAgent:
    if len({one.function for one in found}) == 1:
        return min(found, key=lambda one: not one.host)
    known = next((one for one in found if one.id == before), None)
    if known is None:
        raise ambiguous(repr(text[:100]), found)
    return known


def ambiguous(what: str, agents: Sequence[BusAgent]) -> InvalidRequest:
    """The error where ``what`` was asked for may be either of several agents."""
    names = sorted({one.function[:200] for one in agents})
    shown, more = names[:_MOST_NAMED], _more(len(names) - _MOST_NAMED)
    return InvalidRequest(
        f"{what} is ambiguous: {', '.join(shown)}{more}; name one of them",
        detail={"reason": "ambiguous", "agents": shown},
    )


def _more(number: int) -> str:
    return f", and {number} more" if number > 0 else ""


class Router:
    """Chooses agents, and remembers who has answered in which conversation.

    ``classifier`` takes the place of :func:`by_words`.
    """

    def __init__(self, classifier: Classifier | None = None) -> None:
        self._classifier = classifier or by_words
        self._answering: OrderedDict[Hashable, str] = OrderedDict()
        self._default = ""

    async def route(
        self,
        text: str,
        agents: Sequence[BusAgent],
        conversation: Hashable | None = None,
        *,
        askable: Askable | None = None,
    ) -> Routed:
        """One of ``agents`` for a question that names none.

        Whoever has answered in the ``conversation``, as long as it is there. Else the one that answers by
        default (``default_capable``), where it alone does or did before the others came; of several such the
        classifier's choice. Where none does, the only agent there is, or the classifier's choice among all.
        ``askable`` leaves out who takes no questions. Raises :class:`~enginehost.errors.EngineUnavailable`
        where there is no agent, and :class:`~enginehost.errors.InvalidRequest` where none fits, or several
        answer by default and nothing tells them apart.
        """
        if not agents:
            raise EngineUnavailable("there is no agent to ask", reason="no-agent")
        before = self.answering(conversation) if conversation is not None else ""
        routed = next((Routed(one, Because.CONVERSATION) for one in agents if one.id == before), None)
        if routed is None and askable is not None and len(agents) > 1:
            agents = await askable(agents) or agents
        routed = routed or await self._chosen(text, agents)
        if conversation is not None:
            self.answers(conversation, routed.agent)
        return routed

    def answering(self, conversation: Hashable) -> str:
        """The id of the agent that has answered in the conversation; empty where none has."""
        return self._answering.get(conversation, "")

    def answers(self, conversation: Hashable, agent: BusAgent) -> None:
        """Remember that ``agent`` answers in the conversation."""
        self._answering[conversation] = agent.id
        self._answering.move_to_end(conversation)
        if len(self._answering) > MOST_CONVERSATIONS:
            self._answering.popitem(last=False)

    async def _chosen(self, text: str, agents: Sequence[BusAgent]) -> Routed:
        willing = self._first_there([one for one in agents if one.default_capable])
        if len(willing) == 1:
            self._default = willing[0].id
            return Routed(willing[0], Because.DEFAULT)
        if len(agents) == 1:
            return Routed(agents[0], Because.ONLY)
        chosen = self._classifier(text, willing or agents)
        if inspect.isawaitable(chosen):
            chosen = await chosen
        if chosen is not None:
            return Routed(chosen, Because.CLASSIFIER)
        raise ambiguous("who answers by default", willing) if willing else nobody_fits(agents)

    def _first_there(self, willing: Sequence[BusAgent]) -> Sequence[BusAgent]:
        """Of those that answer by default the one that did before, else those that were there first."""
        before = [one for one in willing if one.id == self._default]
        oldest = max((one.age for one in willing), default=0.0)
        return before or [
            one for one in willing if one.age == oldest or _since(oldest, one) <= TOGETHER_SECONDS
        ]


def _since(oldest: float, agent: BusAgent) -> float:
    return math.inf if math.isinf(oldest) else oldest - agent.age


def nobody_fits(agents: Sequence[BusAgent]) -> InvalidRequest:
    """The error where no agent is for a question; it names those that there are."""
    names = [one.name[:100] for one in agents[:_MOST_NAMED]]
    more = _more(len(agents) - len(names))
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
    best = [key for key, score in ranked if score == ranked[0][1]]
    fitting = [one for one in agents if one.id in best]
    alone = len({one.function for one in fitting}) == 1
    return fitting[0] if alone else None


def _as_function(agent: BusAgent) -> FunctionSignature:
    subjects = (*agent.specializations, *agent.capabilities, *agent.tags)
    return FunctionSignature(agent.name, agent.description, tags=subjects)
