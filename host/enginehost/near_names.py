"""Which names look like one that nobody has, found without looking at all of them."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

_LOOKED_AT = 100
"""Neighbours on each side that are looked at."""
_COMPARED = 25
"""Those of them that are compared letter by letter, each of which takes some ten microseconds."""
_MOST_LETTERS = 80

Visible = Callable[[str], bool]


class NearNames:
    """Names that can be asked for those like another; case does not count.

    Compared are those that stand beside it in order of the alphabet, read forwards and backwards: names that
    begin or end alike. So what it costs does not grow with the names.
    """

    def __init__(self, names: Iterable[str]) -> None:
        folded = [(name.casefold(), name) for name in names]
        self._forwards = sorted(folded)
        self._backwards = sorted((fold[::-1], name) for fold, name in folded)

    def near(self, name: str, visible: Visible) -> list[str]:
        """Up to three names, of those that are ``visible``, that look like ``name``."""
        wanted = name[:_MOST_LETTERS].casefold()
        names: dict[str, list[str]] = {}
        for order, key in (
            (self._forwards, wanted),
            (self._backwards, name[-_MOST_LETTERS:].casefold()[::-1]),
        ):
            for found in _beside(order, key, visible):
                alike = names.setdefault(found[:_MOST_LETTERS].casefold(), [])
                if found not in alike:
                    alike.append(found)
        close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.6)
        return [one for fold in close for one in names[fold]][:3]


def _beside(order: list[tuple[str, str]], key: str, visible: Visible) -> Iterator[str]:
    place = bisect_left(order, (key, ""))
    for side in (order[place : place + _LOOKED_AT], order[max(0, place - _LOOKED_AT) : place][::-1]):
        yield from islice((name for _, name in side if visible(name)), _COMPARED)
