"""What a capability says of how its function performs: counted, not claimed."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from enginehost.record import BUCKETS, Stats

PERCENTILES = (("p50", 0.5), ("p95", 0.95))


def measured(stats: Stats | None) -> dict[str, Any]:
    """Calls that ended, errors, and latency in milliseconds; nothing before the first call ended.

    A percentile is reckoned from the histogram, evenly within one of its bars, so it is about right.
    """
    if stats is None or not (calls := stats.calls):
        return {}
    buckets = list(stats.buckets)
    latency = {"mean": _ms(stats.total_seconds / calls)}
    return {
        "calls": calls,
        "errors": stats.errors,
        "latency_ms": latency | {name: _ms(percentile(buckets, share)) for name, share in PERCENTILES},
    }


def percentile(buckets: list[int], share: float) -> float:
    """The seconds within which this share of the calls in a histogram over ``BUCKETS`` ended.

    Of those slower than its last bound no more is known than that.
    """
    wanted = share * sum(buckets)
    reached = list(accumulate(buckets))
    bar = next(number for number, so_far in enumerate(reached) if so_far >= wanted and so_far)
    if bar == len(BUCKETS):
        return BUCKETS[-1]
    low, high = (BUCKETS[bar - 1] if bar else 0.0), BUCKETS[bar]
    return low + (high - low) * (wanted - (reached[bar] - buckets[bar])) / buckets[bar]


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
