"""What the host counts of its models, and its rows on ``/metrics``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from enginehost.llm.message import Usage

METRICS: dict[str, tuple[str, str]] = {
    "enginehost_model_requests_total": (
        "counter",
        "Requests to a model that ended, by engine, model and outcome (ok, cancelled or an error code);"
        " a request that was sent several times counts once.",
    ),
    "enginehost_model_tokens_total": (
        "counter",
        "Tokens, by engine, model and kind (input, output, cached, cache_written, reasoning).",
    ),
    "enginehost_model_seconds_total": ("counter", "Time from request to last piece, by engine and model."),
    "enginehost_model_cost_dollars_total": (
        "counter",
        "US dollars, by engine and model, where the file has prices.",
    ),
}
"""The metrics of models with type and meaning."""

_KINDS = ("input", "output", "cached", "cache_written", "reasoning")


class Counts:
    """Counters of one model of one engine."""

    __slots__ = ("cost", "outcomes", "seconds", "tokens")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.tokens = dict.fromkeys(_KINDS, 0)
        self.seconds = 0.0
        self.cost = 0.0

    def ended(self, outcome: str, seconds: float, usage: Usage | None) -> None:
        """Count one request."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.seconds += seconds
        if usage is not None:
            for kind in _KINDS:
                self.tokens[kind] += getattr(usage, kind)
            self.cost += usage.cost or 0.0


def rows(counts: Mapping[tuple[str, str], Counts]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Metric, labels and value of every row, those of one metric after each other."""
    found = sorted(counts.items())
    for (engine, model), one in found:
        for outcome, count in sorted(one.outcomes.items()):
            labels = {"engine": engine, "model": model, "outcome": outcome}
            yield "enginehost_model_requests_total", labels, count
    for (engine, model), one in found:
        for kind, count in one.tokens.items():
            yield "enginehost_model_tokens_total", {"engine": engine, "model": model, "kind": kind}, count
    for name, value in (
        ("enginehost_model_seconds_total", "seconds"),
        ("enginehost_model_cost_dollars_total", "cost"),
    ):
        for (engine, model), one in found:
            yield name, {"engine": engine, "model": model}, getattr(one, value)
