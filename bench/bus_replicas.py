"""Three replicas of a function on the databus: what they bring, and what is lost when one is killed.

Each replica is a process; they share a core, the requester has the other. A function that is not idempotent
notes in a file, before anything else, that it runs: nothing may run twice, and whoever is told that it is
unknown whether a call ran must not be told so without need.

    python bench/bus_replicas.py [RUNS=3] [SECONDS=3]
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from bus_sides import Side, be_side, config, domains, host_on, obey, offer, offered, until
from enginehost.engine import Function, run_mode
from enginehost.errors import EngineHostError, OutcomeUnknown
from enginehost.function import Limits
from enginehost.signature import Annotations, FunctionSignature
from measuring import LOAD_CORE, SERVER_CORE, Spread, finish, in_turn, introduce, table, verdict

REPLICAS = 3
SLEEP = 0.02
IN_FLIGHT = 12
LEAST_OF_ONE = 2.8

STEP = 0.005
CALLERS = 16
WARM_UP = 1.0
AFTER_KILL = 4.0
MOST_PAUSE_SECONDS = 2.0
IDEMPOTENT = "measure"
ONCE = "order"

Calls = list[tuple[int, str, float, float]]
"""Number, outcome, begin and end of each."""


# The sides


async def replica(domain: str, state: str) -> None:
    """A host with the functions; each start has a file of its own."""
    os.makedirs(state, exist_ok=True)  # noqa: PTH103 - on the event loop, before anything runs on it
    notes = os.open(Path(state, "ran"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def nap(arguments: dict[str, Any], call: Any) -> None:
        await asyncio.sleep(SLEEP)

    async def noted(arguments: dict[str, Any], call: Any) -> int:
        os.write(notes, f"{arguments['number']}\n".encode())
        await asyncio.sleep(STEP)
        return arguments["number"]

    numbered = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    signatures = (
        FunctionSignature(IDEMPOTENT, parameters=numbered, annotations=Annotations(idempotent=True)),
        FunctionSignature(ONCE, parameters=numbered),
    )
    async with host_on(config(int(domain), state, service="line"), state) as host:
        offer(host, [Function(FunctionSignature("nap"), nap, limits=Limits(max_concurrency=1))])
        offer(host, [Function(one, noted, run_mode(noted)) for one in signatures])
        await offered(host, 3)
        await obey({})


async def request(domain: str, state: str) -> None:
    """A host that calls."""
    async with host_on(config(int(domain), state, service="caller"), state) as host:
        assert host.bus is not None
        bus = host.bus
        await bus.arrival("line.nap")

        async def sees(count: int) -> None:
            await until(lambda: bus.describe()["providers"] == count)

        async def rate(seconds: float) -> float:
            """Calls a second, after a warm-up."""
            begin, done = monotonic() + WARM_UP / 2, 0

            async def caller() -> None:
                nonlocal done
                while monotonic() < begin + seconds:
                    await host.call("line.nap", {})
                    done += begin <= monotonic() < begin + seconds

            await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
            return done / seconds

        async def load(name: str, seconds: float) -> Calls:
            """Call all the time; what became of each call."""
            calls: Calls = []
            numbers, end = iter(range(10**9)), monotonic() + seconds

            async def caller() -> None:
                while (begin := monotonic()) < end:
                    number = next(numbers)
                    outcome = await outcome_of(host.call(f"line.{name}", {"number": number}), number)
                    calls.append((number, outcome, begin, monotonic()))

            await asyncio.gather(*(caller() for _ in range(CALLERS)))
            return calls

        await obey({"sees": sees, "rate": rate, "load": load})


OK, UNKNOWN = "ok", OutcomeUnknown.code


async def outcome_of(call: Awaitable[Any], expected: int) -> str:
    """``ok``, or the code of the error."""
    try:
        answer = await call
    except EngineHostError as failure:
        return failure.code
    return OK if answer == expected else "wrong answer"


ROLES: Mapping[str, Callable[..., Awaitable[None]]] = {"replica": replica, "request": request}


# Throughput


def throughput(place: Path, runs: int, seconds: float) -> None:
    """Measure and print what three replicas bring."""
    with ExitStack() as stack:
        requesters: dict[int, Side] = {}
        for count, domain in zip((1, REPLICAS), domains(2), strict=True):
            for number in range(count):
                state = place / f"of-{count}-{number}"
                stack.enter_context(Side(__file__, SERVER_CORE, "replica", domain, state))
            requester = Side(__file__, LOAD_CORE, "request", domain, place / f"requester-{count}")
            requesters[count] = stack.enter_context(requester)
            requester.ask("sees", count=count)
        found = in_turn(
            {
                "one replica": lambda: requesters[1].ask("rate", seconds=seconds),
                "three replicas": lambda: requesters[REPLICAS].ask("rate", seconds=seconds),
            },
            runs,
        )
    one = found["one replica"].median
    rows = [[name, *spread.cells(1), f"{spread.median / one:.2f}"] for name, spread in found.items()]
    head = ["calls a second", "median", "lowest", "highest", "of one"]
    table(f"A function that sleeps {SLEEP * 1e3:.0f} ms, one at a time, {IN_FLIGHT} in flight", head, rows)
    verdict("of one replica, three", found["three replicas"].median / one, least=LEAST_OF_ONE)


# One is killed


@dataclass(frozen=True, slots=True)
class Killed:
    """What became of the calls while one of the replicas was killed."""

    calls: int
    lost: int
    """Without a result, and without being told that the killed replica had it."""
    unknown: int
    twice: int
    """Calls of what is not idempotent that ran more than once."""
    pause: float
    """Seconds, the longest between two answers."""
    slowest: float
    codes: Counter[str]


def killing(place: Path, name: str) -> Killed:
    """One run: three fresh replicas under load, of which one goes."""
    (domain,) = domains(1)
    spot = Path(tempfile.mkdtemp(dir=place))
    with ExitStack() as stack:
        states = [spot / f"{number}" for number in range(REPLICAS)]
        sides = [
            stack.enter_context(Side(__file__, SERVER_CORE, "replica", domain, state)) for state in states
        ]
        requester = stack.enter_context(Side(__file__, LOAD_CORE, "request", domain, spot / "requester"))
        requester.ask("sees", count=REPLICAS)
        requester.tell("load", name=name, seconds=WARM_UP + AFTER_KILL)
        sleep(WARM_UP)
        sides[0].kill()
        killed = monotonic()
        calls: Calls = requester.hear()
        return judged(calls, name, [list(_noted(state)) for state in states], killed)


def _noted(state: Path) -> Iterator[int]:
    return map(int, (state / "ran").read_text().split())


def judged(calls: Calls, name: str, ran: list[list[int]], killed: float) -> Killed:
    """What the calls show; ``ran`` is what each replica noted, the killed one's first."""
    survivors = {number for notes in ran[1:] for number in notes}
    unknown = [(number, begin) for number, outcome, begin, _ in calls if outcome == UNKNOWN]
    needless = [
        number for number, begin in unknown if number in survivors or begin > killed + MOST_PAUSE_SECONDS
    ]
    allowed = len(unknown) - len(needless) if name == ONCE else 0
    ends = sorted(end for _, outcome, _, end in calls if outcome == OK)
    times = Counter(number for notes in ran for number in notes)
    return Killed(
        calls=len(calls),
        lost=sum(outcome != OK for _, outcome, _, _ in calls) - allowed,
        unknown=len(unknown),
        twice=sum(count > 1 for count in times.values()) if name == ONCE else 0,
        pause=max(after - before for before, after in pairwise(ends)),
        slowest=max(end - begin for _, _, begin, end in calls),
        codes=Counter(outcome for _, outcome, _, _ in calls if outcome not in (OK, UNKNOWN)),
    )


def kills(place: Path, runs: int) -> None:
    """Measure and print what is lost."""
    kinds = {"idempotent": IDEMPOTENT, "not idempotent": ONCE}
    found = {kind: [killing(place, name) for _ in range(runs)] for kind, name in kinds.items()}
    rows: list[list[str]] = []
    for kind, all_runs in found.items():
        pauses = Spread([run.pause for run in all_runs])
        slowest = Spread([run.slowest for run in all_runs])
        numbers = [
            sum(getattr(run, one) for run in all_runs) for one in ("calls", "lost", "unknown", "twice")
        ]
        rows.append([kind, *map(str, numbers), f"{pauses.highest:.3f}", f"{slowest.highest:.3f}"])
    head = ["function", "calls", "lost", "unknown", "ran twice", "longest pause s", "slowest call s"]
    table(f"One of {REPLICAS} replicas is killed, {CALLERS} callers, {runs} times", head, rows)
    for kind, all_runs in found.items():
        codes = sum((run.codes for run in all_runs), Counter[str]())
        if codes:
            print(f"{kind}: {dict(codes)}")
        verdict(f"calls lost that should not be, {kind}", sum(run.lost for run in all_runs), most=0)
        verdict(f"calls that ran twice, {kind}", sum(run.twice for run in all_runs), most=0)
        pause = max(run.pause for run in all_runs)
        verdict(f"seconds between two answers, {kind}", pause, most=MOST_PAUSE_SECONDS)


def main(runs: int = 3, seconds: int = 3) -> None:
    introduce("Replicas on the databus, all on one core, their requester on the other")
    with tempfile.TemporaryDirectory() as place:
        throughput(Path(place), runs, seconds)
        kills(Path(place), runs)


if __name__ == "__main__":
    if not be_side(ROLES):
        main(*(int(given) for given in sys.argv[1:]))
        finish()
