"""An index of functions: BM25 over weighted words, for queries that may share few words with them.

What the index answers depends on the functions in it alone, not on the way there: adding and removing leaves
no trace. Its sums are of whole numbers for that reason.

BM25: Robertson and Zaragoza, The Probabilistic Relevance Framework (2009); here a word of a name counts more
often than one of a description (the idea of BM25F), and of a concept's words the best counts once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from enginehost.narrowing.document import Document
from enginehost.narrowing.query import Concept, concepts
from enginehost.narrowing.spelling import Spelling

_SATURATION, _LENGTH = 4.0, 0.2
"""How soon a repeated word counts no more, and how much long texts pay."""
_TOP, _FED_BACK, _FEEDBACK = 3, 5, 0.45
"""Of the best functions so many words are asked for as well, worth so much."""

Ranked = list[tuple[str, float]]
"""Names with how well they fit, the best first."""


class Index:
    """Finds documents by name. Not for two threads at once."""

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self._postings: dict[str, dict[str, int]] = {}
        """By stem: what it counts in each document that has it."""
        self._size = 0
        self._spelling = Spelling()

    def __len__(self) -> int:
        return len(self._documents)

    def put(self, name: str, document: Document) -> None:
        """Add a document, or put it in the place of the one of that name."""
        self.remove(name)
        self._documents[name] = document
        self._size += document.size
        for term, weight in document.weights.items():
            having = self._postings.get(term)
            if having is None:
                having = self._postings[term] = {}
                self._spelling.add(term)
            having[name] = weight

    def remove(self, name: str) -> None:
        """Take a document out, if there is one of that name."""
        document = self._documents.pop(name, None)
        if document is None:
            return
        self._size -= document.size
        for term in document.weights:
            having = self._postings[term]
            del having[name]
            if not having:
                del self._postings[term]
                self._spelling.remove(term)

    def rank(self, query: str) -> Ranked:
        """The documents that fit a query at all."""
        asked = [known for concept in concepts(query) if (known := self._known(concept))]
        scores: dict[str, float] = {}
        for concept in asked:
            self._add(scores, concept, 1.0)
        self._feed_back(scores, {term for concept in asked for term in concept})
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))

    def _known(self, concept: Concept) -> Mapping[str, float]:
        """Of a concept what is in the index; where nothing is, what is spelt like its word."""
        found = {term: worth for term, worth in concept.items() if worth and term in self._postings}
        if found:
            return found
        word = next(iter(concept))
        return self._spelling.like(word) if concept[word] == 1.0 else {}

    def _add(self, scores: dict[str, float], concept: Mapping[str, float], share: float) -> None:
        """Add what a concept counts in each document: its best word there."""
        if len(concept) == 1:
            term, worth = next(iter(concept.items()))
            for name, score in self._scored(term, worth * self._rarity(self._postings[term])):
                scores[name] = scores.get(name, 0.0) + share * score
            return
        best: dict[str, float] = {}
        bound = math.inf
        for term, worth in concept.items():
            rarity = min(bound, self._rarity(self._postings[term]))
            if worth == 1.0:
                bound = rarity  # what stands for a common word is worth no more for being rare itself
            for name, score in self._scored(term, worth * rarity):
                if score > best.get(name, 0.0):
                    best[name] = score
        for name, score in best.items():
            scores[name] = scores.get(name, 0.0) + share * score

    def _scored(self, term: str, worth: float) -> Iterable[tuple[str, float]]:
        having, documents = self._postings[term], self._documents
        most = worth * (_SATURATION + 1)
        fixed = _SATURATION * (1 - _LENGTH)
        by_size = _SATURATION * _LENGTH * len(documents) / (self._size or 1)
        return [
            (name, most * count / (count + fixed + by_size * documents[name].size))
            for name, count in having.items()
        ]

    def _rarity(self, having: Mapping[str, int]) -> float:
        return math.log(1 + (len(self._documents) - len(having) + 0.5) / (len(having) + 0.5))

    def _feed_back(self, scores: dict[str, float], asked: set[str]) -> None:
        """Ask also for the words that the best functions have in common (pseudo-relevance feedback)."""
        top = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:_TOP]
        if len(top) < 2:
            return
        gained: dict[str, float] = {}
        best = top[0][1]
        for name, score in top:
            document = self._documents[name]
            for term, weight in document.weights.items():
                if term not in asked:
                    gained[term] = gained.get(term, 0.0) + score / best * weight / document.size
        common = {term: gain * self._rarity(self._postings[term]) for term, gain in gained.items()}
        fed = sorted(common.items(), key=lambda item: (-item[1], item[0]))[:_FED_BACK]
        most = fed[0][1] if fed else 1.0
        for term, gain in fed:
            self._add(scores, {term: gain / most}, _FEEDBACK)
