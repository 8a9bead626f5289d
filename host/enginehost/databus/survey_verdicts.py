"""Findings about the bus, as :class:`~enginehost.diagnostics.Diagnostic` without a place in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from enginehost.diagnostics import Diagnostic, Severity

MOST_OF_A_KIND = 20
"""Findings of one kind that are told; the rest is counted."""


def wrong(code: str, message: str, hint: str) -> Diagnostic:
    """Something does not work."""
    return Diagnostic("", 0, 0, Severity.ERROR, code, message, hint)


def doubtful(code: str, message: str, hint: str) -> Diagnostic:
    """Somebody should look."""
    return Diagnostic("", 0, 0, Severity.WARNING, code, message, hint)


def few(found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The first findings, and how many more there are."""
    listed = list(found)
    yield from listed[:MOST_OF_A_KIND]
    if len(listed) > MOST_OF_A_KIND:
        last, more = listed[-1], len(listed) - MOST_OF_A_KIND
        message = f"{more} more like the one before"
        yield Diagnostic("", 0, 0, last.severity, last.code, message, last.hint)
