"""The demo of a network of agents says what its page shows, with scripted models and with a real API."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.host.genesis.models import call, follows, installed, say

from enginehost.testing.wire import provider_on_thread

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "multi_agent"

sys.path.append(str(DEMO))
from chain import Hop, drawn, trees  # noqa: E402


def shown(*words: str, **environment: str) -> str:
    """What the demo prints."""
    done = subprocess.run(
        [sys.executable, str(DEMO / "demo.py"), *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_answer_comes_from_interface_to_primary_agent_to_specialist_to_service_and_back(dds_domain: int):
    pytest.importorskip("cyclonedds")
    page = (ROOT / "docs" / "multi-agent.md").read_text(encoding="utf-8")
    promised = re.search(r"^make demo-network\n```\n+```text\n(.*?)^```$", page, re.S | re.M)
    assert promised is not None
    said = re.sub(rf"domain {dds_domain} ", "domain 42 ", shown("--domain", str(dds_domain)))
    offers = " offers "
    first, then = ([line for line in text.splitlines() if offers in line] for text in (promised[1], said))
    assert sorted(first) == sorted(then)  # who is there first is chance
    rest = [
        "\n".join(line for line in text.strip().splitlines() if offers not in line)
        for text in (promised[1], said)
    ]
    pattern = "[^\n]*?".join(map(re.escape, rest[0].split("…")))
    assert re.fullmatch(pattern, rest[1]), said


def test_what_a_specialist_cannot_know_is_said_and_ends_no_program(dds_domain: int):
    pytest.importorskip("cyclonedds")
    said = shown("--domain", str(dds_domain), "How is the weather in Atlantis?", "What is 1 + 1?")
    assert "That cannot be told: " in said
    assert "no weather station in 'Atlantis'" in said
    assert "\\" not in said
    assert "\n> What is 1 + 1?\n2\n" in said


def test_the_same_agents_ask_a_real_api_where_a_model_is_named(dds_domain: int, tmp_path: Path):
    pytest.importorskip("cyclonedds")
    pytest.importorskip("openai")

    def planner(text: str, tools: list[str]) -> dict[str, object]:
        if "get_weather_info" in tools:
            return call("get_weather_info", message=text)
        return call("weather_now", city="Oslo") if "weather_now" in tools else say("I have no tools")

    with provider_on_thread(follows(planner)) as server:
        said = shown(
            *("--domain", str(dds_domain), "--model", "small", "What is it like in Oslo?"),
            OPENAI_BASE_URL=f"{server.url}/v1",
            OPENAI_API_KEY="sk-test",
            PYTHONPATH=installed(tmp_path / "site"),
        )
        assert "snowing" in said
        assert {one.json()["model"] for one in server.seen} == {"small"}
    assert re.search("primary_agent .*\n +└─ weather: weather_specialist", said)


@st.composite
def chains(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Calls as (number, number of the one above), the first above all."""
    return [(number, draw(st.integers(0, number - 1))) for number in range(1, draw(st.integers(1, 12)))]


@given(chains(), st.randoms())
def test_a_tree_has_each_call_once_below_the_one_that_made_it(made: list[tuple[int, int]], random) -> None:
    above = dict(made)
    hops = [
        Hop("p", f"f{number}", "c", str(number), str(above.get(number, "")), number, 100.0 - number, "ok")
        for number in (0, *above)
    ]
    random.shuffle(hops)
    (root,) = trees(hops)
    waiting, seen = [root], []
    while waiting:
        hop = waiting.pop()
        seen.append(hop.call)
        assert all(above[int(one.call)] == int(hop.call) for one in hop.below)
        waiting += hop.below
    assert sorted(seen) == sorted(hop.call for hop in hops)
    assert len(list(drawn(root, "desk"))) == 2 + len(hops)
