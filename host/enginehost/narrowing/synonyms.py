"""General English that stands for other words (``synonyms.txt`` beside this module says which)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

from enginehost.narrowing.words import STOP, split, stem

LONGEST_PHRASE = 4
"""Words of the longest phrase that is known."""

Phrase = tuple[str, ...]
"""Stems of a word or a phrase."""


@cache
def synonyms() -> Mapping[Phrase, frozenset[str]]:
    """The stems that a word or phrase leads to, besides its own."""
    found: dict[Phrase, set[str]] = {}
    for asked, meant in _groups():
        words = {one for phrase in meant for one in phrase if one not in STOP}
        leads = {stem(one) for one in words}
        for phrase in asked:
            key = tuple(map(stem, phrase))
            found.setdefault(key, set()).update(leads - set(key))
    return {key: frozenset(leads) for key, leads in found.items()}


def _groups() -> Iterator[tuple[Sequence[Phrase], Sequence[Phrase]]]:
    """What is asked and what it may mean, as words."""
    text = files("enginehost.narrowing").joinpath("synonyms.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        asked, directed, meant = line.partition(" > ")
        first = [tuple(split(one)) for one in asked.split()]
        yield first, [tuple(split(one)) for one in meant.split()] if directed else first
