"""What a method answers, as JSON Schema, where its hint says it."""

from __future__ import annotations

import collections.abc
from typing import Any, get_args, get_origin

from enginehost.agents.typed_schemas import BAD_HINT, Schemas, adapter_of
from enginehost.agents.typed_source import NO_HINT, MethodSource

_STREAMS = (
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncGenerator,
)


def result_schema(source: MethodSource, *, streams: bool) -> dict[str, Any] | None:
    """The schema of the result (of a stream: of an item); ``None`` where the hint says nothing.

    A hint that is no value of JSON's (a frame, an array, a class of the author's) says nothing.
    """
    hint = _item(source.result) if streams else source.result
    if hint is Any or hint is NO_HINT:
        return None
    try:
        schema = adapter_of(hint).json_schema(mode="serialization", schema_generator=Schemas)
    except BAD_HINT:
        return None
    if schema and source.told.result:
        schema.setdefault("description", source.told.result)
    return schema or None


def _item(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in _STREAMS and get_args(hint) else Any
