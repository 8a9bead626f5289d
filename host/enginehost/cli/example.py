"""A call of a function as one could type it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import dumps
from shlex import quote
from typing import Any

from enginehost.cli.output import one_line


def example_call(name: str, parameters: Mapping[str, Any], *options: str) -> str:
    """``enginehost call NAME …`` with a value for each parameter that has to be given."""
    words = ["enginehost", "call", name, *_arguments(parameters), *options]
    return one_line(" ".join(map(quote, words)))


def _arguments(parameters: Mapping[str, Any]) -> Iterator[str]:
    properties: Mapping[str, Any] = parameters.get("properties") or {}
    for name in parameters.get("required") or []:
        yield f"{name}={_sample(properties.get(name))}"


def _sample(schema: Any) -> str:
    about = schema if isinstance(schema, dict) else {}
    for given in (about.get("default"), *(about.get("examples") or []), *(about.get("enum") or [])):
        if given is not None:
            return given if isinstance(given, str) else dumps(given)
    kinds = about.get("type")
    samples = {"integer": "1", "number": "1", "boolean": "true", "array": "[]", "object": "{}"}
    return samples.get(kinds if isinstance(kinds, str) else "", "text")
