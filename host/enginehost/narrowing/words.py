"""What counts as a word: of names (at humps, underscores, dots), of prose, and of what people ask."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache

_HUMP = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z]{2})(?=\d)|(?<=\d)(?=[A-Za-z]{3})"
)
_WORD = re.compile(r"[^\W_]+")
_LONGEST = 40
"""Letters of a word that count; more is no word that anybody asks for."""
_MOST = 2_000
"""Words of one text that count: a description of a megabyte is worth no more."""
_MOST_LETTERS = 20_000
_KEPT_STEMS = 50_000
"""Stems that are kept ready (of some 100 bytes each)."""

STOP = frozenset(
    """
    a about above actually after again all already also am an and another any anybody anyone anything
    are as at back be because been before being both but by can cannot come could did do does doing done
    don down each either else ever every everybody everyone everything few for from further get gets
    getting give gives go goes going gonna got had has have having he hello help her here hers hey hi
    him his how i if in into is it its just keep kindly know let like ll lot made make makes making many
    may maybe me might mine more most much must my myself need needed needs no nor not now of off ok
    okay on once one only onto or other our ours out over own particular please put re really right s
    said same say see shall she should show so some somebody someone something somewhere still such sure
    t take tell than thank thanks that the their them then there these they thing things this those
    through to too try under until up upon us use used using ve very want wanted wants was way we well
    were what whatever when where whether which while who whole whom whose why will wish with within
    without would yes yet you your yours
    """.split()  # noqa: SIM905 - a list of words is read more easily so
)
"""Words that say nothing of what is wanted."""


def split(text: str) -> Iterator[str]:
    """The words of a text or a name in lower case, accents left out, in order.

    ``getHTTPStatus.byCode`` is *get http status by code*.
    """
    plain = text[:_MOST_LETTERS]
    if not plain.isascii():
        plain = "".join(
            char for char in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(char)
        )
    for count, match in enumerate(_WORD.finditer(_HUMP.sub(" ", plain))):
        if count == _MOST:
            return
        yield match.group().casefold()[:_LONGEST]


def terms(text: str) -> list[str]:
    """The stems of the words of a text that say something."""
    return [stem(word) for word in split(text) if word not in STOP]


@cache
def _stemmer() -> Callable[[str], str]:
    from snowballstemmer.english_stemmer import EnglishStemmer  # takes a moment: only where tools are sought

    return EnglishStemmer().stemWord


_stems: dict[str, str] = {}
_stemming = threading.Lock()
"""The stemmer works on one word at a time; indexes are made on threads."""


def stem(word: str) -> str:
    """The stem of an English word in lower case (Snowball's rules); any other word stays nearly as it is."""
    found = _stems.get(word)
    if found is None:
        with _stemming:
            if len(_stems) >= _KEPT_STEMS:
                _stems.clear()
            found = _stems[word] = _stemmer()(word) if word.isascii() and not word.isdigit() else word
    return found
