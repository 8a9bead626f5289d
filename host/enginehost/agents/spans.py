"""Turns and tool calls as steps of their chain, and as OpenTelemetry spans of the same ids, without content.

The spans follow the semantic conventions of generative AI. Those of questions to models are the LLM
service's; they become children of the turn's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from enginehost.agents.contract import Turn
from enginehost.errors import WaitsForPerson, is_failure
from enginehost.steps import AGENT, DECIDED_BY, DECIDES, Step, StepKind, Steps, below, here, outcome_of
from enginehost.store.port import RunState
from enginehost.trace_context import TRACE, TraceContext
from enginehost.tracing import Tracing, context_below

_NO_OUTCOMES = {
    RunState.CANCELLED: "cancelled",
    RunState.FAILED: "execution_failed",
    RunState.PAUSED: WaitsForPerson.code,
}
"""Outcomes of turns that gave no answer."""


_MOST_SAID = 64 * 1024


def hidden(session: str) -> str:
    """What tells one conversation from others, for those who may not go on with it: its id is a secret."""
    return hashlib.sha256(session.encode(errors="surrogatepass")).hexdigest()[:16]


class Said:
    """What a tool answers, as far as somebody wants to know it, and its beginning only."""

    def __init__(self, *, wanted: bool) -> None:
        self._left = _MOST_SAID if wanted else 0
        self._parts: list[str] = []

    def add(self, text: str) -> None:
        """The next piece."""
        if self._left > 0:
            self._parts.append(text[: self._left])
            self._left -= len(text)

    @property
    def text(self) -> str | None:
        """What was said."""
        return "".join(self._parts) if self._parts else None


class Spans:
    """Tells ``steps`` of turns and tools, and makes spans where somebody set up an SDK."""

    def __init__(self, steps: Steps | None = None) -> None:
        self._tracing = Tracing()
        self.steps = steps if steps is not None else self._tracing.steps

    @contextmanager
    def turn(self, turn: Turn) -> Generator[None]:
        """A turn in this process, from here to where it ends or waits."""
        self._tracing.refresh()
        name, session, run = turn.spec.name, turn.session.id, turn.run.id
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.conversation.id": session,
            "enginehost.run": run,
        }
        title = f"invoke_agent {name}".rstrip()
        about = {"conversation": hidden(session), "run": run}
        with self._step(StepKind.TURN, name, title, attributes, agent=name, about=about) as (step, span):
            try:
                yield
            finally:
                usage = turn.usage
                step.about |= {"state": str(turn.run.state), "steps": turn.steps}
                step.outcome = step.outcome or _NO_OUTCOMES.get(turn.run.state, "")
                if span is not None:
                    span.set_attribute("enginehost.run.state", str(turn.run.state))
                    span.set_attribute("gen_ai.usage.input_tokens", usage.input + usage.cached)
                    span.set_attribute("gen_ai.usage.output_tokens", usage.output)

    def decided(self, decision: str, agent: str, turn: TraceContext) -> None:
        """A person decided a question of a turn: a step in the chain of both, which names the other one."""
        here_now = here()
        for role, above, other in ((DECIDES, here_now, turn), (DECIDED_BY, turn, here_now)):
            if above.trace and other.trace and above.trace != other.trace:
                about = {"decision": decision, "role": role, "chain": f"{other.trace:032x}"}
                self.steps.end(
                    self.steps.begin(StepKind.CHOICE, decision, above, agent=agent, about=about), "ok"
                )

    @contextmanager
    def tool(
        self, name: str, call_id: str, *, agent: bool = False, asker: str = "", given: Any = None
    ) -> Generator[Callable[..., None]]:
        """A tool call; tell it the outcome (``ok`` or an error's code), and what came out.

        ``agent``: the tool is another agent; ``asker``: in whose turn.
        """
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
        }
        kind = StepKind.AGENT if agent else StepKind.TOOL
        kept = given if self.steps.values else None
        with self._step(kind, name, f"execute_tool {name}", attributes, agent=asker, given=kept) as (
            step,
            span,
        ):

            def ended(outcome: str, gave: Any = None) -> None:
                step.outcome = outcome
                step.gave = gave if self.steps.values else None
                if span is not None and is_failure(outcome):
                    span.set_attribute("error.type", outcome)

            yield ended

    @contextmanager
    def _step(
        self, kind: StepKind, name: str, title: str, attributes: dict[str, Any], **more: Any
    ) -> Generator[tuple[Step, Any]]:
        above = TRACE.get()
        with self._span(title, attributes, above) as span:
            ids = span.get_span_context() if span is not None else None
            own = (ids.trace_id, ids.span_id) if ids is not None and ids.is_valid else None
            step = self.steps.begin(kind, name, above, ids=own, **more)
            sampled = bool(ids.trace_flags.sampled) if ids is not None and own else above.sampled
            token, agent = TRACE.set(below(step, sampled)), AGENT.set(step.agent)
            outcome = "ok"
            try:
                yield step, span
            except BaseException as error:
                outcome = outcome_of(error)
                raise
            finally:
                AGENT.reset(agent)
                TRACE.reset(token)
                self.steps.end(step, step.outcome or outcome, step.gave)

    @contextmanager
    def _span(self, name: str, attributes: dict[str, Any], above: TraceContext) -> Generator[Any]:
        """The span; ``None`` where nobody records."""
        tracer = self._tracing.tracer if self._tracing.on else None
        if tracer is None:
            yield None
            return
        with tracer.start_as_current_span(
            name,
            context=context_below(above),
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield span
