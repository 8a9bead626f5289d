"""A function as a bag of words: how often each stands in it, by where it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from enginehost.narrowing import words
from enginehost.signature import FunctionSignature

NAME, TAGS, DESCRIPTION, PARAMETER, ABOUT_PARAMETER = 4, 6, 3, 2, 1
"""What a word counts in each place. Whole numbers: sums of them are the same in any order."""

_MOST_PARAMETERS = 200


@dataclass(frozen=True, slots=True)
class Document:
    """What an index keeps of a function. ``size`` is the sum of the weights."""

    weights: Mapping[str, int]
    size: int


def document_of(signature: FunctionSignature) -> Document:
    """The words of a function's name, description, tags, and its parameters' names and descriptions."""
    weights: Counter[str] = Counter()
    for text, weight in _texts(signature):
        for term in words.terms(text):
            weights[term] += weight
    for word in words.split(signature.name):  # also those that say little: somebody chose them
        weights.setdefault(words.stem(word), NAME)
    return Document(dict(weights), sum(weights.values()))


def text_of(signature: FunctionSignature) -> str:
    """The function in a few lines of prose, as a model reads it."""
    name = " ".join(words.split(signature.name))
    takes = ", ".join(" ".join(words.split(one)) for one in list(signature.properties)[:20])
    about = [f"{name}: {signature.description[:1000]}", takes and f"takes {takes}", ", ".join(signature.tags)]
    return "\n".join(filter(None, about))


def _texts(signature: FunctionSignature) -> Iterator[tuple[str, int]]:
    yield signature.name, NAME
    yield signature.description, DESCRIPTION
    for tag in signature.tags:
        yield tag, TAGS
    for name, schema in list(signature.properties.items())[:_MOST_PARAMETERS]:
        yield name, PARAMETER
        yield _about(schema), ABOUT_PARAMETER


def _about(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return ""
    choices = schema.get("enum")
    named = [one for one in choices[:20] if isinstance(one, str)] if isinstance(choices, list) else []
    return " ".join([str(schema.get("description", "")), *named])
