"""Users' stages and harnesses: where one is at fault, the error names it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from enginehost.agents.contract import Harness, Session, Stage, Tool, Turn
from enginehost.agents.durable import StoreTrouble
from enginehost.errors import EngineHostError, ExecutionFailed
from enginehost.llm.message import Message
from enginehost.safe_text import explain
from enginehost.store.port import Fenced

_SHIPPED = "enginehost.agents.stages."
_log = logging.getLogger("enginehost.agents")

Redact = Callable[[str], str]


@contextmanager
def blamed(what: str, redact: Redact) -> Generator[None]:
    """An exception of a user's code becomes ``ExecutionFailed`` that begins with ``what``."""
    try:
        yield
    except (EngineHostError, StoreTrouble, Fenced):
        raise  # of what it called
    except Exception as error:
        _log.exception("%s failed", what)
        raise ExecutionFailed(f"{what} failed: {explain(error, redact)}") from error


def through(
    stage: Stage, messages: AsyncIterator[Message], turn: Turn, key: str, redact: Redact
) -> AsyncIterator[Message]:
    """The messages after a stage. ``key`` is the one that names it in a file."""
    if str(getattr(stage, "__module__", "")).startswith(_SHIPPED):
        return stage(messages, turn)
    return _told(lambda: stage(messages, turn), f"{key}: the stage {_name(stage)}", redact)


def context_of(harness: Harness, session: Session, redact: Redact) -> AsyncIterator[Message]:
    """The context that a harness makes."""
    return _told(lambda: harness.context(session), f"HARNESS: {type(harness).__name__}.context", redact)


async def tools_of(harness: Harness, session: Session, redact: Redact) -> Sequence[Tool]:
    """The tools that a harness offers."""
    what = f"HARNESS: {type(harness).__name__}.tools"
    with blamed(what, redact):
        tools: Sequence[Any] = list(await harness.tools(session))
    for one in tools:
        if not isinstance(one, Tool):
            raise ExecutionFailed(
                f"{what} gave a {type(one).__name__}, and no Tool (session.selected_tools() has some)"
            )
    return tools


async def _told(begin: Callable[[], Any], what: str, redact: Redact) -> AsyncGenerator[Message, None]:
    with blamed(what, redact):
        source = begin()
        if not hasattr(source, "__aiter__"):
            if hasattr(source, "close"):
                source.close()  # a coroutine that nobody awaits
            kind = type(source).__name__
            raise ExecutionFailed(f"{what} is no async generator of messages: it gave a {kind}")
        try:
            async for message in source:
                if not isinstance(message, Message):
                    raise ExecutionFailed(f"{what} gave a {type(message).__name__}, and no Message")
                yield message
        finally:
            if hasattr(source, "aclose"):
                await source.aclose()


def _name(stage: object) -> str:
    name = str(getattr(stage, "__qualname__", type(stage).__qualname__))
    return name.partition(".<locals>")[0]
