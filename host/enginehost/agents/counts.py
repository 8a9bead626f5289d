"""What agents did in this process, for ``/metrics``."""

from __future__ import annotations

from collections.abc import Iterator

from enginehost.llm.message import Usage
from enginehost.metrics import escaped

AGENT_METRICS: dict[str, tuple[str, str]] = {
    "enginehost_agent_turns_total": ("counter", "Turns that ended in this process, by agent and state."),
    "enginehost_agent_turns_running": ("gauge", "Turns that run in this process now."),
    "enginehost_agent_steps_total": ("counter", "Questions to models that were answered, by agent."),
    "enginehost_agent_tool_calls_total": (
        "counter",
        "Tool calls of agents that ended, by function and outcome (ok, cancelled or an error code).",
    ),
    "enginehost_agent_tokens_total": ("counter", "Tokens of ended turns, by agent and kind."),
}
"""Every metric with its type and meaning; the docs are checked against it."""


class Counts:
    """Counts since the process began."""

    def __init__(self) -> None:
        self.running = 0
        self._turns: dict[tuple[str, str], int] = {}
        self._steps: dict[str, int] = {}
        self._tools: dict[tuple[str, str], int] = {}
        self._tokens: dict[tuple[str, str], int] = {}

    def turn(self, agent: str, state: str, usage: Usage) -> None:
        """A turn has ended."""
        self._turns[agent, state] = self._turns.get((agent, state), 0) + 1
        for kind, tokens in (
            ("input", usage.input),
            ("cached", usage.cached),
            ("cache_written", usage.cache_written),
            ("output", usage.output),
        ):
            self._tokens[agent, kind] = self._tokens.get((agent, kind), 0) + tokens

    def step(self, agent: str) -> None:
        """A model has answered."""
        self._steps[agent] = self._steps.get(agent, 0) + 1

    def tool(self, name: str, outcome: str) -> None:
        """A tool call has ended."""
        self._tools[name, outcome] = self._tools.get((name, outcome), 0) + 1

    def render(self) -> str:
        """Prometheus text."""
        return "".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _rows("enginehost_agent_turns_total", ("agent", "state"), self._turns)
        yield f"{_head('enginehost_agent_turns_running')}enginehost_agent_turns_running {self.running}\n"
        steps = {(agent,): count for agent, count in self._steps.items()}
        yield from _rows("enginehost_agent_steps_total", ("agent",), steps)
        yield from _rows("enginehost_agent_tool_calls_total", ("function", "outcome"), self._tools)
        yield from _rows("enginehost_agent_tokens_total", ("agent", "kind"), self._tokens)


def _head(name: str) -> str:
    kind, meaning = AGENT_METRICS[name]
    return f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"


def _rows(
    name: str, labels: tuple[str, ...], counted: dict[tuple[str, ...], int] | dict[tuple[str, str], int]
) -> Iterator[str]:
    yield _head(name)
    for values, count in sorted(counted.copy().items()):
        pairs = ",".join(f'{label}="{escaped(value)}"' for label, value in zip(labels, values, strict=True))
        yield f"{name}{{{pairs}}} {count}\n"
