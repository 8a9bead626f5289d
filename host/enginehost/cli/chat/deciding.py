"""Questions of agents, put to the person at the keyboard."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from enginehost.cli.chat.show import called
from enginehost.cli.output import emphasised, note, printable
from enginehost.errors import InvalidRequest


class Leave(Exception):
    """The person wants to go."""


class Command(NamedTuple):
    """A command (``/cancel``) in place of a decision."""

    words: Sequence[str]


def put_question(question: Mapping[str, Any]) -> bool:
    """Show a question; whether it is about a call, which can be edited or answered."""
    note(emphasised(f"? {printable(question['text'] or 'may this call run?')}", sys.stderr, "yellow"))
    about_call = "tool" in question
    if about_call:
        note(f"  {called(question)}")
    return about_call


def read_decision(about_call: bool) -> dict[str, Any] | Command | None:
    """The decision that the person types, as HTTP has it; ``None`` where it was not understood.

    What begins with a slash is a command.

    Raises :class:`Leave` at the end of the input, and ``InvalidRequest`` for arguments that are no JSON.
    """
    words = "[a]pprove, [r]eject, [e]dit, [w]rite the answer" if about_call else "[a]pprove, [r]eject"
    try:
        word = input(f"{words}: ").strip()
        return Command(word[1:].split()) if word.startswith("/") else _typed(word, about_call)
    except EOFError:
        raise Leave from None


def _typed(word: str, about_call: bool) -> dict[str, Any] | None:
    if word in ("a", "approve"):
        return {"decision": "approve"}
    if word in ("r", "reject"):
        return {"decision": "reject", "reason": input("reason: ").strip()}
    if about_call and word in ("e", "edit"):
        try:
            args = json.loads(input("arguments (JSON): "))
        except ValueError as error:
            raise InvalidRequest(f"that is not JSON: {error}") from None
        return {"decision": "edit", "args": args}
    if about_call and word in ("w", "write", "answer"):
        return {"decision": "answer", "text": input("result: ").strip()}
    return None
