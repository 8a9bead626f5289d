"""Chooses among many functions those that fit what was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice

from enginehost.catalog import Catalog
from enginehost.errors import EngineHostError
from enginehost.narrowing.classifier import (
    BM25,
    EMBEDDING,
    SHORT_LIST,
    Asks,
    Complaints,
    Embed,
    Vectors,
    ask_model,
    check_classifier,
    fused,
)
from enginehost.narrowing.following import CatalogIndex
from enginehost.signature import FunctionSignature

MOST_TOOLS = 40
"""Tools up to which nothing is narrowed, unless somebody says otherwise."""
_SECONDS = 15.0
"""How long a model may take to choose; then words decide."""


class Narrowing:
    """Ranks the functions of a catalog.

    ``asks`` and ``embeds`` find what talks to a model engine, by its name; they raise an error of the tree
    where there is none.
    """

    def __init__(self, catalog: Catalog, asks: Callable[[str], Asks], embeds: Callable[[str], Embed]) -> None:
        self._index = CatalogIndex(catalog)
        self._asks, self._embeds = asks, embeds
        self._vectors = Vectors()
        self._complaints = Complaints()

    async def rank(
        self,
        query: str,
        offered: Callable[[str], FunctionSignature | None],
        every: Callable[[], Iterable[FunctionSignature]],
        most: int | None = None,
        classifier: str | Embed = BM25,
    ) -> list[str]:
        """The names of functions that fit ``query``, the best first, ``most`` of them.

        ``offered`` gives the signature of one that may be among them; ``every`` gives them all. Raises
        ``InvalidRequest`` for a classifier that there is not; one that fails is replaced by ``bm25``, and the
        log says so once.
        """
        choice = check_classifier(classifier) if isinstance(classifier, str) else "embedding"
        fitting = (name for name, _ in await self._index.rank(query) if offered(name) is not None)
        if choice == BM25:
            return list(islice(fitting, most))
        ranked = list(fitting)
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._by_model(query, ranked, every, most, classifier)
        except (EngineHostError, TimeoutError) as error:
            self._complaints.say(choice, error)
        except Exception as error:  # noqa: BLE001 - a callable of the program's
            self._complaints.say(choice, error)
        return ranked[:most]

    async def _by_model(
        self,
        query: str,
        ranked: list[str],
        every: Callable[[], Iterable[FunctionSignature]],
        most: int | None,
        classifier: str | Embed,
    ) -> list[str]:
        all_there = {one.name: one for one in every()}
        if not isinstance(classifier, str) or classifier.partition(":")[0].strip().lower() == EMBEDDING:
            embed = self._embeds(_named(classifier)) if isinstance(classifier, str) else classifier
            near = await self._vectors.rank(embed, query, list(all_there.values()))
            return fused(near, ranked)[:most]
        shown = list(dict.fromkeys([*(one for one in ranked if one in all_there), *all_there]))[:SHORT_LIST]
        llm = self._asks(_named(classifier))
        return await ask_model(llm, query, [all_there[one] for one in shown], most or MOST_TOOLS)


def _named(classifier: str) -> str:
    return classifier.partition(":")[2].strip()


def chosen(
    names: Sequence[str], most: int, keep: Collection[str], rankings: Iterable[Sequence[str]]
) -> list[str]:
    """Of ``names`` those to ``keep`` and ``most`` in all, filled from the rankings in turn, then in order.

    They are in the order of ``names``: the same set is the same list, whatever was asked (prompt caches).
    """
    there = frozenset(names)
    taken = dict.fromkeys(name for name in names if name in keep)
    for ranking in (*rankings, names):
        for name in ranking:
            if len(taken) >= most:
                break
            if name in there:
                taken[name] = None
    return [name for name in names if name in taken]
