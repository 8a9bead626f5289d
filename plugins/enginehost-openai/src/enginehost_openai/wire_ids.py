"""The ids of tool calls on the wire: the provider's own, as long as they tell calls apart."""

from __future__ import annotations

from enginehost.llm.message import Message


class WireIds:
    """Which id a call has on the wire, until its result has passed.

    Some servers give the same ids in each turn, or twice in one: then ours stands in place of the second.
    """

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[str, str] = {}

    def call(self, message: Message) -> str:
        """The id of a call."""
        own = message.call_id
        given = str((message.provider or {}).get("id") or own)
        wire = own if given in self._open.values() else given
        self._open[own] = wire
        return wire

    def result(self, own: str) -> str:
        """The id of the call that a result is for."""
        return self._open.pop(own, own)
