"""An answer on its way out: text in pieces, one message after the other, the usage on the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from enginehost.llm.message import Message, Role, Status, Type, Usage, new_id


def require_text(piece: object) -> None:
    """Raises ``TypeError`` for a piece that is no text."""
    if type(piece) is not str:
        raise TypeError(f"a piece of text is a {type(piece).__name__}")


class Outgoing:
    """Makes messages of what a provider streams.

    The last whole message waits until the next one begins, since it may be the last of all.
    """

    __slots__ = ("_id", "_type", "_waiting")

    def __init__(self) -> None:
        self._type: Type | None = None
        self._id = ""
        self._waiting: Message | None = None

    @property
    def waiting(self) -> Message | None:
        """The message that waits."""
        return self._waiting

    def piece(self, type_: Type, text: str) -> Sequence[Message]:
        """A further piece of text or reasoning; a new message where the one before was of another type.

        Raises ``TypeError`` for what is no text.
        """
        require_text(text)
        if type_ is self._type:
            return (Message(Role.ASSISTANT, type_, text, None, None, None, Status.OPEN, self._id),)
        before = [*self.close(), *self.release()]
        self._type, self._id = type_, new_id()
        return (*before, Message(Role.ASSISTANT, type_, text, None, None, None, Status.OPEN, self._id))

    def close(self, provider: Mapping[str, Any] | None = None) -> Sequence[Message]:
        """The open message is whole."""
        if self._type is None:
            return ()
        whole = Message(Role.ASSISTANT, self._type, "", provider=provider, id=self._id)
        self._type = None
        return self._wait(whole)

    def finish(self, type_: Type, provider: Mapping[str, Any] | None = None) -> Sequence[Message]:
        """A text or thought is whole, whether any of it came in pieces or not."""
        return self.close(provider) if type_ is self._type else self.whole(type_, provider=provider)

    def whole(
        self, type_: Type, content: str = "", *, query: Mapping[str, Any] | None = None, **fields: Any
    ) -> Sequence[Message]:
        """A message that comes whole."""
        made = Message(Role.ASSISTANT, type_, content, query, id=new_id(), **fields)
        return (*self.close(), *self._wait(made))

    def release(self) -> Sequence[Message]:
        """Something follows, so that the message that waits is not the last."""
        waiting, self._waiting = self._waiting, None
        return () if waiting is None else (waiting,)

    def end(
        self, usage: Usage, finish: str = "", provider: Mapping[str, Any] | None = None
    ) -> Sequence[Message]:
        """The answer is whole. ``finish``: why it ended, unless that is the ordinary end.

        ``provider`` is what the last message keeps besides.
        """
        before = self.close()
        last = self._waiting or Message(Role.ASSISTANT, id=new_id())
        self._waiting = None
        told = dict(provider or {}) | ({"finish": finish} if finish else {})
        if told:
            last = replace(last, provider={**(last.provider or {}), **told})
        return (*before, replace(last, usage=usage))

    def _wait(self, message: Message) -> Sequence[Message]:
        before, self._waiting = self.release(), message
        return before
