"""Words that are spelt alike, by their pieces of three letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

_ALIKE = 0.55
"""Share of common pieces (Dice) from which on two words are alike."""
_WORTH = 0.7
_MOST = 5
_SHORTEST = 4
"""Letters of a word that is worth guessing at."""


class Spelling:
    """The words of an index, to be asked for those that look like another."""

    def __init__(self) -> None:
        self._words: dict[str, dict[str, None]] = {}
        """By piece."""

    def add(self, word: str) -> None:
        """Know a word."""
        for piece in pieces(word):
            self._words.setdefault(piece, {})[word] = None

    def remove(self, word: str) -> None:
        """Know it no more."""
        for piece in pieces(word):
            words = self._words[piece]
            del words[word]
            if not words:
                del self._words[piece]

    def like(self, word: str) -> Mapping[str, float]:
        """The known words most like ``word``, with what they are worth, up to 1."""
        if len(word) < _SHORTEST:
            return {}
        wanted = pieces(word)
        common = Counter(one for piece in wanted for one in self._words.get(piece, ()))
        alike = {one: 2 * count / (len(wanted) + len(pieces(one))) for one, count in common.items()}
        near = sorted(((-share, one) for one, share in alike.items() if share >= _ALIKE))[:_MOST]
        return {one: _WORTH * -share for share, one in near}


def pieces(word: str) -> frozenset[str]:
    """The pieces of three letters; the beginning counts as a letter, so that it weighs more."""
    return frozenset(_pieces(f"^{word}"))


def _pieces(word: str) -> Iterator[str]:
    for at in range(max(1, len(word) - 2)):
        yield word[at : at + 3]
