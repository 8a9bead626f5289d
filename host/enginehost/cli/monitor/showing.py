"""What a monitor shows: a picture that is drawn anew on a terminal, lines elsewhere, JSON for programs."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Protocol

from enginehost.cli.chains.drawing import SHORT, cut, status, step_words, tree_lines
from enginehost.cli.monitor.watching import Filter, Watched
from enginehost.cli.output import emphasised, one_line, print_encoded, print_table, say
from enginehost.databus.heard_events import ComponentSeen, Heard, LogSeen
from enginehost.monitoring.seen import Seen
from enginehost.values import write

DRAW_SECONDS = 0.5
QUIET_SECONDS = 0.5
"""After its last step has ended for so long, a chain is printed."""
_CLEAR = "\033[H\033[J"


class Show(Protocol):
    """Shows what is heard."""

    def news(self, one: Heard) -> None:
        """Something new is known."""
        ...

    def tick(self) -> None:
        """Time passes."""
        ...

    def end(self) -> None:
        """It is over."""
        ...


class AsJson:
    """One event a line."""

    def __init__(self, wanted: Filter) -> None:
        self._wanted = wanted

    def news(self, one: Heard) -> None:
        """Print it."""
        if self._wanted.lets_in(one):
            print_encoded(write(event_json(one)), pretty=False)

    def tick(self) -> None:
        """Let a program that reads along have it."""
        sys.stdout.flush()

    def end(self) -> None:
        """Nothing more."""
        sys.stdout.flush()


class AsLines:
    """Components and errors as they come, and each chain as a tree once it is quiet."""

    def __init__(self, watched: Watched, wanted: Filter) -> None:
        self._watched, self._wanted = watched, wanted
        self._changed: dict[str, float] = {}

    def news(self, one: Heard) -> None:
        """Print what can be printed at once."""
        if isinstance(one, Seen):
            self._changed[one.chain] = time.monotonic()
        elif self._wanted.lets_in(one):
            say(f"{_clock()}  {_words(one)}")

    def tick(self) -> None:
        """Print the chains that are quiet now."""
        before = time.monotonic() - QUIET_SECONDS
        for chain in [chain for chain, when in self._changed.items() if when < before]:
            if not any(one.running for one in self._watched.chains.steps(chain).values()):
                del self._changed[chain]
                self._print(chain)
        sys.stdout.flush()

    def end(self) -> None:
        """Print those that still run, and the rates."""
        for chain in self._changed:
            self._print(chain)
        rates = self._watched.rates()
        if rates:
            say()
            _print_rates(rates)
        sys.stdout.flush()

    def _print(self, chain: str) -> None:
        steps, names = self._watched.chains.steps(chain), self._watched.names
        if self._wanted.lets_chain_in(chain, steps, names):
            say(f"{_clock()}  chain {chain[: 2 * SHORT]}")
            for line in tree_lines(steps, names):
                say(f"          {line}")


class AsPicture:
    """Drawn anew twice a second, as large as the terminal."""

    def __init__(self, watched: Watched, wanted: Filter) -> None:
        self._watched, self._wanted = watched, wanted
        self._drawn = 0.0

    def news(self, one: Heard) -> None:
        """Seen at the next drawing."""

    def tick(self) -> None:
        """Draw, if it is time."""
        if time.monotonic() - self._drawn >= DRAW_SECONDS:
            self._drawn = time.monotonic()
            self._draw()

    def end(self) -> None:
        """Leave the last picture."""
        self._draw()

    def _draw(self) -> None:
        height = shutil.get_terminal_size((100, 40)).lines - 1
        lines = [*_components(self._watched, self._wanted, height // 4), ""]
        lines += [
            *_rates(self._watched, height // 5),
            "",
            *_errors(self._watched, self._wanted, height // 6),
            "",
        ]
        lines += [emphasised("chains", sys.stdout, "bold")]
        lines += _chains(self._watched, self._wanted, height - len(lines))
        sys.stdout.write(_CLEAR + "\n".join(lines[:height]) + "\n")
        sys.stdout.flush()


def event_json(one: Heard) -> dict[str, Any]:
    """An event as a JSON object: ``event`` is ``step``, ``component`` or ``log``."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    if isinstance(one, Seen):
        return {"event": "step", "seen": now, **one.to_json()}
    return {"event": "log" if isinstance(one, LogSeen) else "component", "seen": now, **asdict(one)}


def print_graph(graph: dict[str, Any]) -> None:
    """Who is there, and who called whom."""
    rows = [
        (
            one["kind"],
            cut(one["name"]),
            one["state"],
            f"{cut(one['host_name'])} {one['host'][:SHORT]}".strip(),
        )
        for one in graph["nodes"]
    ]
    print_table(("KIND", "NAME", "STATE", "HOST"), rows)
    say()
    edges = [
        (cut(one["from"]), cut(one["to"]), str(one["calls"]), str(one["errors"])) for one in graph["edges"]
    ]
    print_table(("FROM", "TO", "CALLS", "ERRORS"), edges)


def _components(watched: Watched, wanted: Filter, most: int) -> Iterator[str]:
    shown = [one for one in watched.components.values() if Filter(wanted.component).lets_in(one)]
    yield emphasised(f"components ({len(shown)})", sys.stdout, "bold")
    order = sorted(shown, key=lambda one: (one.state == "READY", one.kind == "FUNCTION", one.name))
    for one in order[:most]:
        yield f"  {_words(one)}"
    if len(order) > most:
        yield f"  and {len(order) - most} more"


def _rates(watched: Watched, most: int) -> Iterator[str]:
    rates = watched.rates()
    total = sum(calls for calls, _ in rates.values())
    yield emphasised(f"rates ({total:.1f}/s, {watched.events:,} events)", sys.stdout, "bold")
    for name, (calls, errors) in sorted(rates.items(), key=lambda item: -item[1][0])[:most]:
        failing = emphasised(f"{errors:8.1f} errors/s", sys.stdout, "red") if errors else ""
        yield f"  {calls:8.1f}/s {failing} {cut(name)}"


def _errors(watched: Watched, wanted: Filter, most: int) -> Iterator[str]:
    found = [one for one in watched.errors if wanted.lets_in(one)]
    yield emphasised(f"errors ({len(found)})", sys.stdout, "bold")
    for one in found[-most:] if most else ():
        yield f"  {_words(one)}"


def _chains(watched: Watched, wanted: Filter, most: int) -> list[str]:
    lines: list[str] = []
    for chain, steps in watched.chains.latest():
        if len(lines) >= most:
            break
        if wanted.lets_chain_in(chain, steps, watched.names):
            lines.append(f"  {chain[: 2 * SHORT]}")
            lines += [f"    {line}" for line in tree_lines(steps, watched.names)]
    return lines[: max(0, most)]


def _words(one: Heard) -> str:
    if isinstance(one, LogSeen):
        return f"{emphasised(cut(one.level), sys.stdout, 'yellow')} {cut(one.host)}: {cut(one.message, 200)}"
    if isinstance(one, ComponentSeen):
        style = {"READY": "green", "OFFLINE": "red"}.get(one.state, "yellow")
        kind, state = one.kind.lower().replace("_", " "), emphasised(f"{one.state:<8}", sys.stdout, style)
        return f"{state} {kind} {cut(one.name)}  {cut(one.service)}".rstrip()
    return f"{status(one)}  {step_words(one)}  chain {one.chain[: 2 * SHORT]}"


def _print_rates(rates: dict[str, tuple[float, float]]) -> None:
    rows = [
        (one_line(name), f"{calls:.1f}", f"{errors:.1f}") for name, (calls, errors) in sorted(rates.items())
    ]
    print_table(("COMPONENT", "STEPS/S", "ERRORS/S"), rows)


def _clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
