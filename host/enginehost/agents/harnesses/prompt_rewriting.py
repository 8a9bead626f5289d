"""What the user said, put by a model as a question that stands by itself."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from enginehost.agents.contract import Harness, Session, Turn
from enginehost.errors import EngineHostError
from enginehost.llm.message import Message, Role, Type, system, user

KIND = "rewritten"
"""``query["kind"]`` of the row that keeps it; ``query["of"]`` is the sequence of the user's own."""

_ASKED = (
    "Rewrite the last message of the user so that it can be understood without the conversation: put names"
    " for 'it' and 'there', and correct slips. Keep its language and its meaning. Write nothing else."
)
_log = logging.getLogger("enginehost.agents")


class PromptRewriting(Harness):
    """Shows the model each message of a user as ``model`` rewrote it (by default the agent's own model).

    The user's own words stay in the session, and the rewritten ones beside them: a turn that goes on in
    another process sees the same. ``rows`` of the conversation before it are shown to who rewrites.
    """

    def __init__(self, model: str = "", *, rows: int = 10, instructions: str = _ASKED) -> None:
        self._model, self._rows, self._asked = model, rows, instructions

    async def before_turn(self, turn: Turn) -> None:
        """Rewrite the last message, unless that has been done, or there is nothing before it."""
        session = turn.session
        before: deque[Message] = deque(maxlen=self._rows + 1)
        done: set[int] = set()
        async with aclosing(session.rows()) as rows:
            async for row in rows:
                if _is_kept(row):
                    done.add(_of(row))
                elif row.type is Type.TEXT and row.role in (Role.USER, Role.ASSISTANT) and row.whole:
                    before.append(row)
        if len(before) < 2 or before[-1].role is not Role.USER or before[-1].sequence in done:
            return
        said = "\n".join(f"{row.role}: {row.content}" for row in before)
        try:
            answer = await session.llm(self._model).send([system(self._asked), user(said)])
        except EngineHostError as error:  # then it is taken as it was said
            _log.warning("a message of session %s could not be rewritten: %s", session.id, error.message)
            return
        query = {"kind": KIND, "of": before[-1].sequence}
        if text := str(answer.text).strip():
            await session.write(Message(Role.SYSTEM, Type.DATA, text, query=query))

    async def context(self, session: Session) -> AsyncGenerator[Message, None]:
        """The rows, with the rewritten text in place of the user's. (Rows of the system come first.)"""
        rewritten: dict[int, str] = {}
        async with aclosing(session.rows()) as rows:
            async for row in rows:
                if _is_kept(row):
                    rewritten[_of(row)] = row.content
                elif row.role is Role.USER and row.type is Type.TEXT and row.sequence in rewritten:
                    yield replace(row, content=rewritten[row.sequence])
                else:
                    yield row


def _is_kept(row: Message) -> bool:
    return row.type is Type.DATA and (row.query or {}).get("kind") == KIND


def _of(row: Message) -> int:
    return int((row.query or {}).get("of", 0))
