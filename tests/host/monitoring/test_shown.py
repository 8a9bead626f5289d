"""What a monitor shows of what it has heard: on a terminal, as lines, filtered."""

from __future__ import annotations

import os
from typing import Any

import pytest

from enginehost.cli.monitor.showing import AsLines, AsPicture
from enginehost.cli.monitor.watching import Filter, Watched
from enginehost.databus.heard_events import GONE, VANISHED, ComponentSeen, LogSeen, heard
from enginehost.databus.types import FUNCTION_CAPABILITY
from enginehost.monitoring.seen import Seen

GOOD, BAD = "a" * 32, "b" * 32
STEPS = [
    Seen(GOOD, "1", kind="request", name="weatherman", started=1.0, seconds=0.2, outcome="ok"),
    Seen(GOOD, "2", "1", kind="call", name="forecast", started=1.1, seconds=0.1, outcome="ok"),
    Seen(BAD, "3", kind="call", name="divide", started=2.0, seconds=0.1, outcome="execution_failed"),
]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr("shutil.get_terminal_size", lambda _: os.terminal_size((80, 40)))
    made = Watched()
    for one in STEPS:
        made.take(one)
    made.take(ComponentSeen("f1", "FUNCTION", "divide", "READY", "h"))
    made.take(ComponentSeen("f2", "FUNCTION", "forecast", "OFFLINE", "h"))
    made.take(LogSeen(1.0, "h", "ERROR", "it \x1b[2J broke"))
    return made


def picture(watched: Watched, wanted: Filter, capsys: Any) -> str:
    AsPicture(watched, wanted).end()
    text = capsys.readouterr().out
    assert text.startswith("\x1b[H\x1b[J")  # in place of the picture before
    assert "\x1b" not in text[6:]  # nothing of what was heard commands the terminal
    return text


def test_the_picture_has_components_rates_errors_and_chains_as_trees(watched: Watched, capsys: Any) -> None:
    text = picture(watched, Filter(), capsys)
    lines = [line.rstrip() for line in text.splitlines()]
    assert "components (2)" in text
    assert text.index("OFFLINE") < text.index("READY")  # what is not well comes first
    assert "rates (" in text
    assert "errors/s divide" in text
    assert "errors (2)" in text
    place = next(number for number, line in enumerate(lines) if line.startswith("    request weatherman"))
    assert lines[place + 1].startswith("    └─ call forecast")


def test_steps_of_a_host_that_vanished_do_not_run_for_ever(watched: Watched) -> None:
    chain = "c" * 32
    for one in (
        Seen(chain, "1", kind="call", name="ask", function_id="elsewhere", started=1.0),
        Seen(chain, "2", "1", kind="turn", name="slow", function_id="f1", started=1.1),
        Seen(chain, "3", "2", kind="model", name="big", started=1.2),
    ):
        watched.take(one)
    watched.take(ComponentSeen("f1", "", "", "OFFLINE", "", reason=VANISHED))
    outcomes = {call: one.outcome for call, one in watched.chains.steps(chain).items()}
    assert outcomes == {"1": "", "2": "outcome_unknown", "3": "outcome_unknown"}
    watched.take(Seen(chain, "2", "1", kind="turn", started=1.1, ended=9.0, seconds=7.9, outcome="ok"))
    assert watched.chains.steps(chain)["2"].outcome == "ok", "it was only out of sight"


@pytest.mark.parametrize(
    "gone",
    [
        ComponentSeen("f7", "", "", "OFFLINE", "", reason=VANISHED),
        ComponentSeen("h1", "", "", "OFFLINE", "", reason=GONE),
    ],
)
def test_so_do_steps_of_it_that_are_about_a_function_of_another_host(
    watched: Watched, gone: ComponentSeen
) -> None:
    chain = "c" * 32
    watched.take(ComponentSeen("h1", "SERVICE", "north", "READY", "h1"))
    watched.take(ComponentSeen("f7", "FUNCTION", "own", "READY", "h1"))
    for one in (
        Seen(chain, "1", kind="request", name="far", host="h1", function_id="elsewhere", started=1.0),
        Seen(chain, "2", "1", kind="call", name="far", host="h1", started=1.1),
        Seen("d" * 32, "3", kind="call", name="far", host="h2", started=1.1),
    ):
        watched.take(one)
    watched.take(gone)
    assert {one.outcome for one in watched.chains.steps(chain).values()} == {"outcome_unknown"}
    assert watched.chains.steps("d" * 32)["3"].running


def test_a_host_is_known_by_its_functions_to_a_monitor_that_comes_late(watched: Watched) -> None:
    offered = dict.fromkeys((member.name for member in FUNCTION_CAPABILITY.members), "")
    offered |= {"function_id": "f5", "name": "add", "provider_id": "h5", "service_name": "Calculator"}
    both = list(heard(FUNCTION_CAPABILITY.name, offered | {"last_seen": 1}))
    assert [watched.take(one) for one in both] == both
    assert [watched.take(one) for one in both] == [None, None]
    assert watched.components["h5"].kind == "SERVICE"
    watched.take(ComponentSeen("h5", "SERVICE", "Reckoner", "READY", "h5"))
    assert watched.components["h5"].name == "Reckoner"
    watched.take(ComponentSeen("f5", "", "", "OFFLINE", "", reason=VANISHED))
    assert watched.components["h5"].state == "READY", "it told of itself, and its end is told too"


def test_the_graph_has_names_where_they_are_known(watched: Watched) -> None:
    watched.take(Seen("d" * 32, "1", kind="call", name="divide", source="f2", started=1.0))
    watched.take(Seen("d" * 32, "2", "1", kind="call", function_id="f9", started=1.0))
    watched.take(ComponentSeen("f9", "FUNCTION", "late", "READY", "h9", "south"))
    watched.take(ComponentSeen("h9", "SERVICE", "south", "READY", "h9"))
    graph = watched.graph()
    assert {("forecast", "divide"), ("divide", "late")} <= {
        (one["from"], one["to"]) for one in graph["edges"]
    }
    assert {one["name"]: one["host_name"] for one in graph["nodes"]}["late"] == "south"


@pytest.mark.parametrize(
    ("wanted", "there", "not_there"),
    [
        (Filter(component="divide"), "call divide", "weatherman"),
        (Filter(component="FORECAST"), "request weatherman", "call divide"),
        (Filter(chain="aaaa"), "request weatherman", "call divide"),
        (Filter(errors=True), "call divide", "weatherman"),
    ],
)
def test_filters_choose_what_is_shown(
    watched: Watched, capsys: Any, wanted: Filter, there: str, not_there: str
) -> None:
    chains = picture(watched, wanted, capsys).partition("chains\n")[2]
    assert there in chains
    assert not_there not in chains


def test_a_small_terminal_is_not_overrun(
    watched: Watched, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda _: os.terminal_size((80, 8)))
    for number in range(500):
        watched.take(ComponentSeen(f"n{number}", "FUNCTION", f"n{number}", "READY", "h"))
        watched.take(Seen(f"{number:032x}", "1", kind="call", name="n", seconds=0.1, outcome="timeout"))
    assert len(picture(watched, Filter(), capsys).splitlines()) <= 7


def test_lines_tell_components_at_once_and_a_chain_once_it_is_quiet(
    watched: Watched, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    lines = AsLines(watched, Filter())
    lines.news(next(iter(watched.components.values())))
    for one in STEPS[:2]:
        lines.news(one)
    lines.tick()
    assert "request" not in (text := capsys.readouterr().out)
    assert "READY    function divide" in text
    now += 1.0
    lines.tick()
    assert "└─ call forecast" in capsys.readouterr().out
