"""Passages near to what the user said: by embeddings, or by words where there is no model for them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

from enginehost.agents.contract import Session
from enginehost.agents.harnesses.beside import Beside
from enginehost.agents.word_search import Words
from enginehost.llm.message import Message, user

Vector = Sequence[float]
Embed = Callable[[Sequence[str]], Awaitable[Sequence[Vector]]]
"""Gives a vector for each text."""


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


def _unit(vector: Vector) -> Vector:
    length = math.sqrt(sum(one * one for one in vector)) or 1.0
    return [one / length for one in vector]
