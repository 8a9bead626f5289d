"""Takes secrets that were resolved out of texts: logs, error messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

MIN_LENGTH = 4
"""Shorter values are not looked for: they would hit ordinary text."""

MASK = "***"


class Redactor:
    """Replaces every known secret in a text by ``***``.

    A secret is also found as it stands inside JSON and inside a URL. The time does not grow with the
    number of secrets: they are found by their first four characters. Usable from any thread.
    """

    def __init__(self) -> None:
        self._by_prefix: dict[str, tuple[str, ...]] = {}

    def add(self, value: str) -> None:
        """Look for ``value`` from now on, if it is long enough."""
        for form in {value, json.dumps(value)[1:-1], *_in_url(value)}:
            prefix = form[:MIN_LENGTH]
            known = self._by_prefix.get(prefix, ())
            if len(form) >= MIN_LENGTH and form not in known:
                self._by_prefix[prefix] = tuple(sorted((*known, form), key=len, reverse=True))

    def __call__(self, text: str) -> str:
        """``text`` without secrets. Overlapping ones become one mask."""
        if not self._by_prefix:
            return text
        parts: list[str] = []
        done = 0
        for start, end in self._spans(text):
            parts += (text[done:start], MASK)
            done = end
        return "".join((*parts, text[done:])) if done else text

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        start = end = 0
        for at in range(len(text) - MIN_LENGTH + 1):
            for value in self._by_prefix.get(text[at : at + MIN_LENGTH], ()):
                if text.startswith(value, at):
                    if at > end or end == 0:
                        if end:
                            yield start, end
                        start = at
                    end = max(end, at + len(value))
                    break
        if end:
            yield start, end


def _in_url(value: str) -> tuple[str, ...]:
    try:
        return quote(value, safe=""), quote_plus(value)
    except UnicodeEncodeError:  # a lone surrogate cannot stand in a URL
        return ()
