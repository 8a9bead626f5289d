"""What agents do, as a Prometheus server reads it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from enginehost.agents.counts import AGENT_METRICS, MOST_AGENTS, Counts
from enginehost.caller import Caller
from enginehost.llm.message import Usage
from enginehost.metrics import METRICS, OTHERS
from enginehost.testing import running_host

FILES = {
    "actor.smss": "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n"
    "PRICE_INPUT = 1\nPRICE_OUTPUT = 2\n",
    "actor.yaml": "answers:\n  - when: {text: look}\n    reply:\n      - call: {tool: look, args: {}}\n"
    "  - when: {result: '*'}\n    say: That is all.\n",
    "helper.smss": "ENGINE_CLASS = Agent\nFUNCTION_NAME = helper\nFUNCTION_DESCRIPTION = Helps.\n"
    "MODEL = actor\nTOOLS = look\n",
    "look.py": "def look() -> int:\n    return 1\n",
    "look.smss": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = look.py\nFUNCTION_NAME = look\n"
    "FUNCTION_DESCRIPTION = Looks.\n",
}
RULES = {"default": "deny", "rules": [{"subjects": ["ann"], "allow": "call"}]}


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """The rows of agents: the metric without its beginning, then the labels' values."""
    start = "enginehost_agent_"
    return {
        (one.name.removeprefix(start), *one.labels.values()): one.value
        for family in text_string_to_metric_families(text.decode())
        for one in family.samples
        if one.name.startswith(start)
    }


async def test_turns_steps_calls_tokens_and_dollars_are_counted_by_agent(smss_folder: Path) -> None:
    for name, text in FILES.items():
        (smss_folder / name).write_text(text)
    ann = Caller("ann")
    async with running_host(smss_folder, policy=RULES) as host:
        assert not samples(host.metrics())
        assert await host.call("helper", {"message": "look"}, caller=ann) == "That is all."
        found = samples(await asyncio.to_thread(host.metrics, ann))
        hidden = samples(await asyncio.to_thread(host.metrics, Caller("bob")))
    assert found["turns_total", "helper", "done"] == 1
    assert found["turns_running", "helper"] == 0
    assert found["steps_total", "helper"] == 2
    assert found["tool_calls_total", "helper", "ok"] == 1
    assert found["tokens_total", "helper", "output"] > 0
    assert found["cost_dollars_total", "helper"] > 0
    assert {name for name, *_ in found} == {one.removeprefix("enginehost_agent_") for one in AGENT_METRICS}
    assert hidden == {(name, OTHERS, *rest): value for (name, _, *rest), value in found.items()}
    assert not AGENT_METRICS.keys() & METRICS.keys()


def test_however_many_agents_there_are_the_rows_are_bounded_and_no_turn_is_lost() -> None:
    counts = Counts()
    for number in range(MOST_AGENTS + 100):
        counts.turn(f"agent {number}", "done", Usage(output=1))
    rows = [row for row in counts.rows(lambda _: True) if row[0] == "enginehost_agent_turns_total"]
    assert len(rows) == MOST_AGENTS + 1
    assert {labels["agent"]: value for _, labels, value in rows}[OTHERS] == 100
