"""Passages near to what the user said: by embeddings, or by words where there is no model for them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from enginehost.agents.contract import Session
from enginehost.agents.harnesses.beside import Beside
from enginehost.llm.message import Message, user

Vector = Sequence[float]
Embed = Callable[[Sequence[str]], Awaitable[Sequence[Vector]]]
"""Gives a vector for each text."""

_WORD = re.compile(r"\w+")
_SATURATION, _LENGTH = 1.5, 0.75
"""The usual parameters of BM25: how soon a repeated word counts no more, and how much long texts pay."""


class EmbeddingSearch(Beside):
    """Shows the ``top`` of ``documents`` that are nearest to what the user said.

    ``embed`` makes vectors, which are compared by their angle; without it words are counted (Okapi BM25).
    """

    def __init__(self, documents: Sequence[str], embed: Embed | None = None, *, top: int = 3) -> None:
        super().__init__()
        self._documents = list(documents)
        self._embed, self._top = embed, top
        self._vectors: Sequence[Vector] | None = None
        self._words = Words(self._documents) if embed is None else None

    async def found(self, session: Session, said: Message) -> Sequence[Message]:
        """One message with the passages, the best first; none where nothing is near."""
        scores = await self._scores(said.content)
        best = sorted(range(len(scores)), key=lambda at: (-scores[at], at))[: self._top]
        passages = [self._documents[at] for at in best if scores[at] > 0]
        if not passages:
            return ()
        listed = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(passages, 1))
        return (user(f"Passages that may help with the next message:\n\n{listed}"),)

    async def _scores(self, text: str) -> Sequence[float]:
        if self._words is not None or self._embed is None:
            return self._words.scores(text) if self._words is not None else ()
        if self._vectors is None:
            self._vectors = [_unit(one) for one in await self._embed(self._documents)]
        asked = _unit((await self._embed([text]))[0])
        return [sum(a * b for a, b in zip(asked, one, strict=True)) for one in self._vectors]


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


def _unit(vector: Vector) -> Vector:
    length = math.sqrt(sum(one * one for one in vector)) or 1.0
    return [one / length for one in vector]
