"""Finding the right function among 2,000 by what a person asks: recall, time, memory.

Usage::

    python bench/narrowing.py [MISSES=0]     # 1: shows the queries whose function is not among the first ten

The functions and the queries are those of ``tests/host/narrowing``. Somebody wrote a line of purpose for each
of 200 functions from its description; somebody else, who saw these lines alone, wrote what a user would say.
The index had been tuned before, on a development set of other functions and queries. "The bare purposes"
asks with those lines themselves.
"""

from __future__ import annotations

import json
import statistics
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

from enginehost.narrowing.document import document_of
from enginehost.narrowing.index import Index
from enginehost.narrowing.words import STOP, split, terms
from enginehost.signature import FunctionSignature
from measuring import SERVER_CORE, finish, introduce, pin, table, verdict

DATA = Path(__file__).parents[1] / "tests/host/narrowing"
FIRST = 10


def read_signatures(name: str = "catalogue.json") -> list[FunctionSignature]:
    """The functions of a set."""
    listed: list[dict[str, Any]] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return [
        FunctionSignature(one["name"], one["description"], one["parameters"], tags=tuple(one["tags"]))
        for one in listed
    ]


def index_of(signatures: Sequence[FunctionSignature]) -> Index:
    """All of them in one index."""
    index = Index()
    for signature in signatures:
        index.put(signature.name, document_of(signature))
    return index


def substrings(signatures: Sequence[FunctionSignature]) -> Callable[[str], list[str]]:
    """The baseline: how many words of the query stand somewhere in the function's texts, as they are."""
    texts = {one.name: _everything(one) for one in signatures}

    def rank(query: str) -> list[str]:
        words = {word for word in split(query) if word not in STOP}
        counts = {name: sum(word in text for word in words) for name, text in texts.items()}
        return sorted((name for name in counts if counts[name]), key=lambda name: (-counts[name], name))

    return rank


def _everything(signature: FunctionSignature) -> str:
    about = json.dumps(signature.parameters, ensure_ascii=False)
    return f"{signature.name} {signature.description} {' '.join(signature.tags)} {about}".lower()


def overlap(query: str, signature: FunctionSignature) -> float:
    """Share of the query's words (their stems) that the function has."""
    asked = set(terms(query))
    return len(asked & document_of(signature).weights.keys()) / (len(asked) or 1)


def recall(rank: Callable[[str], Sequence[str]], asked: Sequence[dict[str, str]]) -> float:
    """Share of queries whose function is among the first ten."""
    return statistics.mean(one["function"] in rank(one["query"])[:FIRST] for one in asked)


def main(misses: int = 0) -> None:
    pin(SERVER_CORE)
    signatures = read_signatures()
    by_name = {one.name: one for one in signatures}
    asked: list[dict[str, str]] = json.loads((DATA / "queries.json").read_text(encoding="utf-8"))
    introduce(f"{len(asked)} queries, {len(signatures)} functions")

    index_of(signatures[:1]).rank("weather")  # the lexicon is read once
    tracemalloc.start()
    kept = index_of(signatures)
    memory = tracemalloc.get_traced_memory()[0] / 2**20
    tracemalloc.stop()
    del kept
    begin = perf_counter()
    index = index_of(signatures)
    built = perf_counter() - begin

    def ours(query: str) -> list[str]:
        return [name for name, _ in index.rank(query)]

    hard = sorted(asked, key=lambda one: overlap(one["query"], by_name[one["function"]]))[: len(asked) // 3]
    purposes = [one | {"query": one["purpose"]} for one in asked]
    baseline = substrings(signatures)
    rows = [
        [name, *(f"{recall(rank, some):.3f}" for some in (asked, hard, purposes))]
        for name, rank in (("enginehost", ours), ("words as substrings", baseline))
    ]
    table(f"recall@{FIRST}", ["", "all queries", "third with least overlap", "the bare purposes"], rows)

    times: list[float] = []
    owned: list[float] = []
    for one in asked * 3:
        begin, own = perf_counter(), thread_time()
        index.rank(one["query"])
        times.append((perf_counter() - begin) * 1e3)
        owned.append((thread_time() - own) * 1e3)
    times.sort()
    owned.sort()
    median, p99 = statistics.median(times), times[int(len(times) * 0.99)]
    busy = owned[int(len(owned) * 0.99)]
    cells = [f"{median:.2f}", f"{p99:.2f}", f"{busy:.2f}", f"{built * 1e3:.0f}", f"{memory:.1f}"]
    head = ["", "median ms", "p99 ms", "p99 ms of processor", "index ms", "index MiB"]
    table("time and memory", head, [["enginehost", *cells]])
    verdict("recall@10", recall(ours, asked), least=0.9)
    verdict("ms a query, median", median, most=5.0)
    if misses:
        for one in asked:
            ranked = ours(one["query"])
            place = ranked.index(one["function"]) + 1 if one["function"] in ranked else 0
            if not 0 < place <= FIRST:
                print(place, one["query"], "→", one["function"], ranked[:3])
    finish()


if __name__ == "__main__":
    main(*(int(given) for given in sys.argv[1:]))
