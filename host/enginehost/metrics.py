"""Prometheus text of what the host counts.

The rows of 10,000 functions are written by ourselves from plain integers: the library's collectors
need fifteen times as long and would hold the interpreter while they do.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from enginehost.record import BUCKETS, Stats
from enginehost.signature import FunctionSignature

if TYPE_CHECKING:
    from enginehost.catalog import Catalog
    from enginehost.invoke import Invoker

Row = tuple[str, Mapping[str, str], float]
"""Metric, labels, value."""

Metrics = Mapping[str, tuple[str, str]]
"""Type and meaning of each metric."""

METRICS: dict[str, tuple[str, str]] = {
    "enginehost_calls_total": ("counter", "Calls that ended, by function and outcome (ok or an error code)."),
    "enginehost_calls_refused_total": (
        "counter",
        "Calls refused before they came to a function (none of that name, not allowed, malformed, the host"
        " full or stopping), by outcome; they are not in enginehost_calls_total.",
    ),
    "enginehost_call_duration_seconds": ("histogram", "Time from arrival to answer, by function."),
    "enginehost_calls_running": ("gauge", "Calls that run or wait now, by function."),
    "enginehost_calls_in_flight": ("gauge", "Calls that run or wait now in the whole host."),
    "enginehost_engines": ("gauge", "Engines, by state."),
    "enginehost_functions": ("gauge", "Functions that can be called now."),
    "enginehost_records_dropped_total": (
        "counter",
        "Call records that were lost: their queue was full, or the log, the audit or a plugin failed.",
    ),
}
"""Every metric with its type and meaning; the docs are checked against it."""


OTHERS = "(others)"
"""The label of all functions together that the reader may not view; so totals are right for every reader."""


def escaped(value: str) -> str:
    """A label's value in the exposition format."""
    value = value.encode("utf-8", "backslashreplace").decode()  # lone surrogates
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _head(name: str, about: Metrics = METRICS) -> str:
    kind, meaning = about[name]
    return f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"


def render(
    invoker: Invoker,
    catalog: Catalog,
    may_view: Callable[[FunctionSignature], bool] | None = None,
    *further: tuple[Metrics, Iterable[Row]],
) -> bytes:
    """All metrics as Prometheus text. Runs on a thread; pauses often so that the event loop goes on.

    Functions for which ``may_view`` is false have no rows of their own: they are summed as :data:`OTHERS`.
    Each of ``further`` has type and meaning of its metrics, and rows in the order of these.
    """
    # Copies: the event loop adds to the originals meanwhile.
    stats = sorted(invoker.stats.copy().items())
    if may_view is not None:
        stats = _shown(stats, catalog, may_view)
    parts: list[str] = []
    for step, piece in enumerate(_pieces(stats, invoker, catalog)):
        parts.append(piece)
        if step % 200 == 199:
            time.sleep(0)
    for about, rows in further:
        parts += _further(about, rows)
    return "".join(parts).encode() + _process()


def _further(about: Metrics, rows: Iterable[Row]) -> Iterator[str]:
    before = ""
    for name, labels, value in rows:
        if name != before:
            yield _head(name, about)
            before = name
        shown = ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items())
        yield (
            f"{name}{{{shown}}} {value:.9g}\n" if isinstance(value, float) else f"{name}{{{shown}}} {value}\n"
        )


def _shown(
    stats: Sequence[tuple[str, Stats]], catalog: Catalog, may_view: Callable[[FunctionSignature], bool]
) -> list[tuple[str, Stats]]:
    shown: list[tuple[str, Stats]] = []
    others: Stats | None = None
    for name, counted in stats:
        entry = catalog.get(name)
        signature = entry.signature if entry is not None else counted.signature
        if name != OTHERS and may_view(signature or FunctionSignature(name)):
            shown.append((name, counted))
        else:
            others = others or Stats()
            _add(others, counted)
    return shown if others is None else [*shown, (OTHERS, others)]


def _add(total: Stats, counted: Stats) -> None:
    for outcome, count in counted.outcomes.copy().items():
        total.outcomes[outcome] = total.outcomes.get(outcome, 0) + count
    total.buckets = [one + more for one, more in zip(total.buckets, counted.buckets, strict=True)]
    total.total_seconds += counted.total_seconds
    total.running += counted.running


def _pieces(stats: Sequence[tuple[str, Stats]], invoker: Invoker, catalog: Catalog) -> Iterator[str]:
    yield _head("enginehost_calls_total")
    for name, counted in stats:
        label = escaped(name)
        for outcome, count in sorted(counted.outcomes.copy().items()):
            yield f'enginehost_calls_total{{function="{label}",outcome="{escaped(outcome)}"}} {count}\n'
    yield _head("enginehost_calls_refused_total")
    for outcome, count in sorted(invoker.refused.copy().items()):
        yield f'enginehost_calls_refused_total{{outcome="{escaped(outcome)}"}} {count}\n'
    yield _head("enginehost_call_duration_seconds")
    for name, counted in stats:
        yield _histogram(escaped(name), counted)
    yield _head("enginehost_calls_running")
    for name, counted in stats:
        yield f'enginehost_calls_running{{function="{escaped(name)}"}} {counted.running}\n'
    yield f"{_head('enginehost_calls_in_flight')}enginehost_calls_in_flight {invoker.in_flight}\n"
    yield _head("enginehost_engines")
    states = Counter(str(record.state) for record in list(catalog.records.values()))
    for state, count in sorted(states.items()):
        yield f'enginehost_engines{{state="{state}"}} {count}\n'
    yield f"{_head('enginehost_functions')}enginehost_functions {len(catalog)}\n"
    dropped = invoker.recorder.dropped
    yield f"{_head('enginehost_records_dropped_total')}enginehost_records_dropped_total {dropped}\n"


def _histogram(label: str, counted: Stats) -> str:
    buckets, total = counted.buckets.copy(), counted.total_seconds
    name, count, lines = "enginehost_call_duration_seconds", 0, list[str]()
    for bound, hits in zip(BUCKETS, buckets, strict=False):
        count += hits
        lines.append(f'{name}_bucket{{function="{label}",le="{bound}"}} {count}\n')
    count += buckets[-1]
    lines.append(
        f'{name}_bucket{{function="{label}",le="+Inf"}} {count}\n'
        f'{name}_sum{{function="{label}"}} {total:.6f}\n{name}_count{{function="{label}"}} {count}\n'
    )
    return "".join(lines)


def _process() -> bytes:
    """CPU, memory, file descriptors and garbage collection of this process, by the library."""
    from prometheus_client import REGISTRY, generate_latest

    return generate_latest(REGISTRY)
