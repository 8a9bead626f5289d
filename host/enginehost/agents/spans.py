"""OpenTelemetry spans of turns and tool calls (semantic conventions of generative AI), without any content.

The spans of questions to models are the LLM service's; they become children of the turn's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from enginehost.agents.contract import Turn
from enginehost.tracing import Tracing


def _unheard(outcome: str) -> None:
    """Nobody records."""


class Spans:
    """Makes spans where somebody set up an SDK."""

    def __init__(self) -> None:
        self._tracing = Tracing()

    @contextmanager
    def turn(self, turn: Turn) -> Generator[None]:
        """The span of a turn in this process, from here to where it ends or waits."""
        self._tracing.refresh()
        if not self._tracing.on:
            yield
            return
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": turn.spec.name,
            "gen_ai.conversation.id": turn.session.id,
            "enginehost.run": turn.run.id,
        }
        with self._span(f"invoke_agent {turn.spec.name}".rstrip(), attributes) as span:
            yield
            span.set_attribute("enginehost.run.state", str(turn.run.state))
            span.set_attribute("gen_ai.usage.input_tokens", turn.usage.input + turn.usage.cached)
            span.set_attribute("gen_ai.usage.output_tokens", turn.usage.output)

    @contextmanager
    def tool(self, name: str, call_id: str) -> Generator[Callable[[str], None]]:
        """The span of a tool call; tell it the outcome (``ok`` or an error's code)."""
        if not self._tracing.on:
            yield _unheard
            return
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
        }
        with self._span(f"execute_tool {name}", attributes) as span:

            def ended(outcome: str) -> None:
                if outcome != "ok":
                    span.set_attribute("error.type", outcome)

            yield ended

    @contextmanager
    def _span(self, name: str, attributes: dict[str, Any]) -> Generator[Any]:
        tracer = self._tracing.tracer
        with tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            yield span
