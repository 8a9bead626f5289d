"""An answer on its way out: text in pieces, one message after the other, the usage on the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from enginehost.llm.message import Message, Role, Status, Type, Usage, new_id


class Outgoing:
    """Makes messages of what a provider streams.

    The last whole message is held back until the next one begins, since it may be the last of all.
    """

    __slots__ = ("_held", "_id", "_type")

    def __init__(self) -> None:
        self._type: Type | None = None
        self._id = ""
        self._held: Message | None = None

    def piece(self, type_: Type, text: str) -> Sequence[Message]:
        """A further piece of text or reasoning; a new message where the one before was of another type."""
        if type_ is self._type:
            return (Message(Role.ASSISTANT, type_, text, None, None, None, Status.OPEN, self._id),)
        before = [*self.close(), *self._let_go()]
        self._type, self._id = type_, new_id()
        return (*before, Message(Role.ASSISTANT, type_, text, None, None, None, Status.OPEN, self._id))

    def close(self, provider: Mapping[str, Any] | None = None) -> Sequence[Message]:
        """The open message is whole."""
        if self._type is None:
            return ()
        whole = Message(Role.ASSISTANT, self._type, "", provider=provider, id=self._id)
        self._type = None
        return self._hold(whole)

    def end_of_thought(self, provider: Mapping[str, Any]) -> Sequence[Message]:
        """What was thought is whole, whether any of it was told or not."""
        if self._type is Type.REASONING:
            return self.close(provider)
        return self.whole(Type.REASONING, provider=provider)

    def whole(
        self, type_: Type, content: str = "", *, query: Mapping[str, Any] | None = None, **fields: Any
    ) -> Sequence[Message]:
        """A message that comes whole."""
        made = Message(Role.ASSISTANT, type_, content, query, id=new_id(), **fields)
        return (*self.close(), *self._hold(made))

    def end(self, usage: Usage, finish: str) -> Sequence[Message]:
        """The answer is whole. ``finish``: why it ended, unless that is the ordinary end."""
        before = self.close()
        last = self._held or Message(Role.ASSISTANT, id=new_id())
        self._held = None
        if finish:
            last = replace(last, provider={**(last.provider or {}), "finish": finish})
        return (*before, replace(last, usage=usage))

    def _hold(self, message: Message) -> Sequence[Message]:
        before, self._held = self._let_go(), message
        return before

    def _let_go(self) -> Sequence[Message]:
        held, self._held = self._held, None
        return () if held is None else (held,)
