"""Which texts are nearest to what is asked, by their words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+")
_SATURATION, _LENGTH = 1.5, 0.75
"""The usual parameters of BM25: how soon a repeated word counts no more, and how much long texts pay."""


class Words:
    """BM25 over some texts (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009)."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(words(text)) for text in texts]
        self._sizes = [sum(count.values()) for count in self._counts]
        self._mean = sum(self._sizes) / len(self._sizes) if any(self._sizes) else 1.0
        self._in = Counter(word for count in self._counts for word in count)

    def scores(self, text: str) -> list[float]:
        """How near each text is to ``text``; 0 where they share no word."""
        asked = set(words(text))
        return [
            sum(self._weight(word, count, size) for word in asked if word in count)
            for count, size in zip(self._counts, self._sizes, strict=True)
        ]

    def _weight(self, word: str, count: Counter[str], size: int) -> float:
        texts, having, times = len(self._counts), self._in[word], count[word]
        rare = math.log(1 + (texts - having + 0.5) / (having + 0.5))
        norm = _SATURATION * (1 - _LENGTH + _LENGTH * size / self._mean)
        return rare * times * (_SATURATION + 1) / (times + norm)


def words(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return [match.casefold() for match in _WORD.findall(text)]
