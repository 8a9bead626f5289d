"""Which programs are behind the endpoints that ours are matched with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rti.connextdds as dds

from enginehost_connext.entities import Reader, Writer

MOST_KNOWN = 4_096
"""Endpoints that are remembered after they went, for what they still had to say."""


class Endpoints:
    """The endpoints matched with one of ours, by handle: whose they are, and what they say of themselves."""

    def __init__(self, handles: Callable[[], Any], data: Callable[[Any], Any]) -> None:
        self._handles = handles
        self._data = data
        self._known: dict[str, tuple[str, bytes]] = {}
        self._there: frozenset[str] = frozenset()

    def look(self) -> frozenset[str]:
        """The handles of those that are there now, which are known from here on."""
        handles = {str(handle): handle for handle in self._handles()}
        for name, handle in handles.items():
            if name not in self._known:
                self._learn(name, handle)
        self._there = frozenset(name for name in handles if name in self._known)
        self._forget()
        return self._there

    def participants(self) -> frozenset[str]:
        """The programs that have an endpoint there now."""
        return frozenset(self._known[name][0] for name in self.look())

    def participant(self, handle: dds.InstanceHandle) -> str:
        """Whose endpoint that is, or was; empty where it is not known."""
        name = str(handle)
        if name not in self._known:
            self._learn(name, handle)
        return self.whose(name)

    def whose(self, name: str) -> str:
        """Likewise, of a handle's text."""
        return self._known.get(name, ("", b""))[0]

    def user_data(self, name: str) -> bytes:
        """What the endpoint says in its user data."""
        return self._known.get(name, ("", b""))[1]

    def _learn(self, name: str, handle: dds.InstanceHandle) -> None:
        try:
            data = self._data(handle)
        except dds.Exception:  # it went in between
            return
        self._known[name] = (_name(data.participant_key), bytes(data.user_data.value))

    def _forget(self) -> None:
        gone = [name for name in list(self._known) if name not in self._there]  # a thread adds to them
        for name in gone[: max(0, len(gone) - MOST_KNOWN)]:
            del self._known[name]


def writers_of(reader: Reader) -> Endpoints:
    """The writers that ``reader`` is matched with."""
    return Endpoints(lambda: reader.matched_publications, reader.matched_publication_data)


def readers_of(writer: Writer) -> Endpoints:
    """The readers that ``writer`` is matched with."""
    return Endpoints(lambda: writer.matched_subscriptions, writer.matched_subscription_data)


def _name(key: dds.BuiltinTopicKey) -> str:
    return "".join(f"{part:08x}" for part in key.value)
