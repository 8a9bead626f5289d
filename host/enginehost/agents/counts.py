"""What agents did in this process, for ``/metrics``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from enginehost.llm.message import Usage
from enginehost.metrics import OTHERS, Row

AGENT_METRICS: dict[str, tuple[str, str]] = {
    "enginehost_agent_turns_total": ("counter", "Turns that ended in this process, by agent and state."),
    "enginehost_agent_turns_running": ("gauge", "Turns that run in this process now, by agent."),
    "enginehost_agent_steps_total": ("counter", "Questions to models that were answered, by agent."),
    "enginehost_agent_tool_calls_total": (
        "counter",
        "Tool calls that ended, by agent and outcome (ok, delegated to another agent, cancelled or an error"
        " code).",
    ),
    "enginehost_agent_tokens_total": (
        "counter",
        "Tokens of turns that ended in this process, by agent and kind (input, cached, cache_written, output,"
        " reasoning).",
    ),
    "enginehost_agent_cost_dollars_total": (
        "counter",
        "US dollars of turns that ended in this process, by agent, where the models' files have prices.",
    ),
}
"""Every metric with its type and meaning; the docs are checked against it."""

MOST_AGENTS = 1_000
"""Agents with rows of their own: a program may register any number. Later ones are counted together."""

_KINDS = ("input", "cached", "cache_written", "output", "reasoning")


@dataclass(slots=True)
class Counted:
    """The counts of one agent."""

    running: int = 0
    steps: int = 0
    cost: float = 0.0
    turns: Counter[str] = field(default_factory=Counter[str])
    tools: Counter[str] = field(default_factory=Counter[str])
    tokens: Counter[str] = field(default_factory=Counter[str])

    def add(self, other: Counted) -> None:
        """Count what another has counted. The other may go on counting meanwhile."""
        self.running += other.running
        self.steps += other.steps
        self.cost += other.cost
        for mine, more in ((self.turns, other.turns), (self.tools, other.tools), (self.tokens, other.tokens)):
            mine.update(more.copy())


class Counts:
    """Counts since the process began, by agent. They are made on the event loop and read on any thread."""

    def __init__(self) -> None:
        self._agents: dict[str, Counted] = {}

    def of(self, agent: str) -> Counted:
        """The counts of an agent."""
        found = self._agents.get(agent)
        if found is None:
            name = agent if len(self._agents) < MOST_AGENTS else OTHERS
            found = self._agents.setdefault(name, Counted())
        return found

    def turn(self, agent: str, state: str, usage: Usage) -> None:
        """A turn has ended."""
        counted = self.of(agent)
        counted.turns[state] += 1
        counted.cost += usage.cost or 0.0
        for kind in _KINDS:
            counted.tokens[kind] += getattr(usage, kind)

    def rows(self, may_view: Callable[[str], bool]) -> Iterator[Row]:
        """Metric, labels and value of every row, those of one metric after each other.

        Agents that the reader may not view are counted together.
        """
        shown: dict[str, Counted] = {}
        for agent, counted in sorted(self._agents.copy().items()):
            name = agent if agent != OTHERS and may_view(agent) else OTHERS
            shown.setdefault(name, Counted()).add(counted)
        for name in AGENT_METRICS:
            for agent, counted in shown.items():
                for labels, value in _values(name, counted):
                    yield name, {"agent": agent, **labels}, value


def _values(name: str, counted: Counted) -> Iterator[tuple[Mapping[str, str], float]]:
    match name.removeprefix("enginehost_agent_"):
        case "turns_running":
            yield {}, counted.running
        case "steps_total":
            yield {}, counted.steps
        case "cost_dollars_total":
            yield {}, counted.cost
        case "turns_total":
            yield from _labelled("state", counted.turns)
        case "tool_calls_total":
            yield from _labelled("outcome", counted.tools)
        case _:
            yield from _labelled("kind", counted.tokens)


def _labelled(label: str, counts: Mapping[str, int]) -> Iterator[tuple[Mapping[str, str], float]]:
    for value, count in sorted(counts.items()):
        yield {label: value}, count
