"""The base class of reactors, and how a call runs one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from enginehost.reactor.nouns import GenRowStruct, NounMetadata, NounStore

POSITIONAL = "all"
"""The noun whose values are given by position, as in SEMOSS."""


class MissingNouns(ValueError):
    """Required nouns were not given; the message lists all of them."""


class ReactorFailed(Exception):
    """The reactor answered with an ERROR noun; the text is the noun's value."""


class Reactor:
    """Takes nouns, executes, gives a noun or a plain value.

    ``keys_to_get`` are the names of its nouns, ``key_required`` a 0 or 1 for each (left out: all are
    required), ``key_descriptions`` texts for people and models. Subclasses write ``execute`` as
    ``def`` or ``async def``; the nouns are in ``store`` and, organised, in ``key_value``.
    """

    keys_to_get: Sequence[str] = ()
    key_required: Sequence[int] = ()
    key_descriptions: Mapping[str, str] = {}

    store: NounStore
    """All nouns of this call by name."""
    current_row: GenRowStruct
    """The nouns that were given by position."""
    key_value: dict[str, Any]
    """The value of each key that was given: one value, or a list where a collection was given."""

    def execute(self) -> Any:
        """Do the work."""
        raise NotImplementedError(f"{type(self).__name__} must define execute(self)")

    def set_noun_store(self, store: NounStore) -> None:
        """Take the nouns of this call."""
        self.store = store
        self.current_row = store[POSITIONAL]
        self.key_value = {}

    def organize_keys(self) -> None:
        """Fill ``key_value``: named nouns first, then those without a name in the order of the keys.

        Raises :class:`MissingNouns`. It has run before ``execute``; calling it again does no harm.
        """
        keys, required = nouns_of(self)
        positional = list(self.current_row)
        self.key_value = {}
        for key in keys:
            if key in self.store:
                self.key_value[key] = self.store[key].value()
            elif positional:
                self.key_value[key] = positional.pop(0).value
        missing = [key for key in keys if key in required and key not in self.key_value]
        if missing:
            raise MissingNouns(f"must define {', '.join(missing)}")

    def get_nouns(self, key: str) -> list[Any]:
        """The values under ``key``, also where only one was given."""
        if key in self.store:
            return self.store[key].values()
        return [self.key_value[key]] if key in self.key_value else []

    setNounStore = set_noun_store  # noqa: N815 - SEMOSS's name
    organizeKeys = organize_keys  # noqa: N815 - SEMOSS's name

    @property
    def keyValue(self) -> dict[str, Any]:  # noqa: N802 - SEMOSS's name
        """SEMOSS's name of ``key_value``."""
        return self.key_value


def nouns_of(reactor: Reactor) -> tuple[list[str], set[str]]:
    """The keys of a reactor and those that are required, in either spelling."""
    keys = list(getattr(reactor, "keysToGet", None) or reactor.keys_to_get)
    marks = list(getattr(reactor, "keyRequired", None) or reactor.key_required)
    if not marks:
        return keys, set(keys)
    return keys, {key for key, mark in zip(keys, marks, strict=False) if mark}


def describe(reactor: type[Any]) -> dict[str, Any]:
    """``{"keys", "required", "descriptions", "doc"}`` of a reactor class."""
    instance = _new(reactor)
    keys, required = nouns_of(instance)
    return {
        "keys": keys,
        "required": [key for key in keys if key in required],
        "descriptions": dict(instance.key_descriptions),
        "doc": inspect.cleandoc(reactor.__doc__ or ""),
    }


def run(reactor: type[Any], arguments: Mapping[str, Any]) -> Any:
    """Execute a new instance on the arguments; its plain value, or an awaitable of it.

    Raises :class:`ReactorFailed` where it answers with an ERROR noun.
    """
    instance = _new(reactor)
    instance.set_noun_store(NounStore.of(arguments))
    instance.organize_keys()
    answer = instance.execute()
    return _awaited(answer) if inspect.isawaitable(answer) else _plain(answer)


async def _awaited(answer: Any) -> Any:
    return _plain(await answer)


def _plain(answer: Any) -> Any:
    if not isinstance(answer, NounMetadata):
        return answer
    if answer.failed:
        raise ReactorFailed(str(answer.value))
    return answer.value


def _new(reactor: type[Any]) -> Reactor:
    if not issubclass(reactor, Reactor):
        raise TypeError(f"{reactor.__name__} is no Reactor; derive it from enginehost.reactor.Reactor")
    return reactor()
