"""Finding functions by what is asked: words, what stands for them, and an index that keeps up."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, median
from time import thread_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.narrowing.document import Document, document_of
from enginehost.narrowing.index import Index
from enginehost.narrowing.lexicon import tiers
from enginehost.narrowing.query import concepts
from enginehost.narrowing.words import split, stem, terms
from enginehost.signature import FunctionSignature

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("getHTTPStatus.byCode", "get http status by code"),
        ("list_open_invoices", "list open invoices"),
        ("Größe-des Größten", "große des großten".replace("ß", "ss")),
        ("weather2day", "weather 2 day"),
        ("e-mail/send", "e mail send"),
        ("", ""),
    ],
)
def test_names_are_split_at_humps_underscores_and_dots(name: str, words: str) -> None:
    assert [one.replace("ß", "ss") for one in split(name)] == words.split()


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_text_is_split_into_words_that_split_no_further(text: str) -> None:
    for word in split(text):
        assert word
        assert len(word) <= 40
        assert not any(char.isspace() or char == "_" for char in word)
    assert all(terms(text))
    for concept in concepts(text):
        assert concept
        assert all(0 < worth <= 1 for worth in concept.values())


def test_a_huge_text_is_read_only_in_part() -> None:
    assert len(list(split("word " * 1_000_000))) <= 2_000
    assert document_of(FunctionSignature("a", "x" * 10_000_000)).size < 100


def test_stems_bring_the_forms_of_a_word_together() -> None:
    assert stem("translations") == stem("translate")
    assert stem("größe") == "größe"


def test_the_lexicon_knows_what_is_more_general() -> None:
    assert any("bird" in tier for tier in tiers("penguin"))
    assert tiers("notawordatall") == ()
    assert tiers("") == ()


def test_a_penguin_is_a_bird_and_get_rid_of_is_delete() -> None:
    index = Index()
    for name, text in {
        "bird_feed": "When birds are fed",
        "delete_row": "Deletes a row",
        "open_row": "Opens a row",
        "sing": "Sings a song",
    }.items():
        index.put(name, document_of(FunctionSignature(name, text)))
    assert index.rank("penguins")[0][0] == "bird_feed"
    assert index.rank("get rid of it")[0][0] == "delete_row"
    assert index.rank("delette")[0][0] == "delete_row"
    assert index.rank("the of and") == []
    assert index.rank("") == []


def test_parameters_their_choices_and_tags_are_found_too() -> None:
    schema = {"type": "object", "properties": {"colour": {"enum": ["vermilion", 3]}, "odd": True}}
    index = Index()
    index.put("a", document_of(FunctionSignature("a", "", schema)))
    index.put("b", document_of(FunctionSignature("b", "", tags=("zeppelin",))))
    assert [name for name, _ in index.rank("vermilion")] == ["a"]
    assert [name for name, _ in index.rank("odd")] == ["a"]
    assert [name for name, _ in index.rank("zeppelins")] == ["b"]


WORDS = st.sampled_from(["weather", "rain", "get", "delete", "invoice", "customer", "animal", "mail", "send"])
DOCUMENTS = st.dictionaries(WORDS, st.integers(1, 9), max_size=5).map(
    lambda weights: Document({stem(word): count for word, count in weights.items()}, sum(weights.values()))
)
CHANGES = st.lists(st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), DOCUMENTS)), max_size=30)


@given(CHANGES, st.lists(WORDS, min_size=1, max_size=4).map(" ".join))
@settings(max_examples=150, deadline=None)
def test_an_index_after_any_changes_answers_as_one_that_is_made_anew(changes: Any, query: str) -> None:
    followed, last = Index(), dict[str, Document]()
    for name, document in changes:
        if document is None:
            followed.remove(name)
            last.pop(name, None)
        else:
            followed.put(name, document)
            last[name] = document
    anew = Index()
    for name in sorted(last, reverse=True):
        anew.put(name, last[name])
    assert followed.rank(query) == anew.rank(query)
    assert len(followed) == len(last)
    for name in last:
        followed.remove(name)
    assert followed.rank(query) == []
    assert not followed._postings
    assert not followed._spelling._words


def test_what_people_ask_finds_its_function_among_two_thousand() -> None:
    index = Index()
    for one in json.loads((HERE / "catalogue.json").read_text(encoding="utf-8")):
        signature = FunctionSignature(
            one["name"], one["description"], one["parameters"], tags=tuple(one["tags"])
        )
        index.put(one["name"], document_of(signature))
    asked = json.loads((HERE / "queries.json").read_text(encoding="utf-8"))
    assert (len(index), len(asked)) == (2000, 200)
    found: list[bool] = []
    seconds: list[float] = []
    for one in asked:
        begun = thread_time()
        ranked = index.rank(one["query"])[:10]
        seconds.append(thread_time() - begun)
        found.append(one["function"] in [name for name, _ in ranked])
    assert mean(found) >= LEAST_RECALL
    assert median(seconds) <= MOST_SECONDS


LEAST_RECALL = 0.6
"""What ``bench/narrowing.py`` measures, less a little."""
MOST_SECONDS = 0.005
"""Of the processor, for a question: ten times what it takes."""
