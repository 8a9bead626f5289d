"""What is asked, as concepts: each a word with what stands for it, and how well."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from enginehost.narrowing.lexicon import tiers
from enginehost.narrowing.synonyms import LONGEST_PHRASE, synonyms
from enginehost.narrowing.words import STOP, split, stem

SYNONYM = 0.25
"""What a word that stands for the one that was asked is worth."""
TIERS = (0.35, 0.3, 0.2, 0.12)
"""What the words of the lexicon's tiers are worth."""
_MOST_WORDS = 200
"""Words of a query that count, the last ones: a long message ends with what is wanted."""

Concept = Mapping[str, float]
"""Stems with their worth, up to 1."""


def concepts(text: str) -> list[Concept]:
    """The words and phrases of a query that say something, each once, in order."""
    words = list(split(text))[-_MOST_WORDS:]
    stems = [stem(word) for word in words]
    found: dict[tuple[str, ...], Concept] = {}
    known = synonyms()
    for at, word in enumerate(words):
        if word not in STOP and (stems[at],) not in found:
            found[stems[at],] = _concept(stems[at])
        for length in range(2, LONGEST_PHRASE + 1):
            phrase = tuple(stems[at : at + length])
            if len(phrase) == length and known.get(phrase):
                found.setdefault(phrase, dict.fromkeys(sorted(known[phrase]), SYNONYM))
    return list(found.values())


@lru_cache(4096)
def _concept(word: str) -> Concept:
    """A stem with all that stands for it, each at its best worth."""
    concept = {word: 1.0} | dict.fromkeys(sorted(synonyms().get((word,), ())), SYNONYM)
    for worth, tier in zip(TIERS, tiers(word), strict=False):
        for one in tier:
            concept.setdefault(one, worth)
    return concept
