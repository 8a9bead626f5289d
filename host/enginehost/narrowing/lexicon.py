"""What English words mean the same, and what is more general: a penguin is a bird, and that an animal.

``lexicon.txt.gz`` beside this module is made from WordNet 3.0 (its licence: ``lexicon.LICENSE``). A line is a
stem and up to four tiers of stems: equal to it, then more general by one, two and three steps.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files

Tiers = Sequence[Sequence[str]]
"""Stems by nearness."""


@lru_cache(4096)
def tiers(stem: str) -> Tiers:
    """What the lexicon has of a stem; nothing where it does not know it."""
    text, places = _lexicon()
    begin, end = places.get(stem[:2].encode(), (0, 0))
    wanted = f"\n{stem} ".encode()
    at = text.find(wanted, begin, end)
    if at < 0:
        return ()
    line = text[at + len(wanted) : text.index(b"\n", at + 1)].decode()
    return tuple(tuple(tier.split()) for tier in line.split("|"))


@cache
def _lexicon() -> tuple[bytes, Mapping[bytes, tuple[int, int]]]:
    """The text (some 3 MB), and where the words with each first two letters stand in it."""
    packed = files("enginehost.narrowing").joinpath("lexicon.txt.gz").read_bytes()
    text = b"\n" + gzip.decompress(packed) + b"\n"
    places: dict[bytes, tuple[int, int]] = {}
    at = 0
    while at < len(text) - 1:
        start = text[at + 1 : at + 3]
        after = at
        while text[after + 1 : after + 3] == start:
            after = text.index(b"\n", after + 1)
        places[start] = (at, after + 1)
        at = after
    return text, places
