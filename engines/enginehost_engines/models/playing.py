"""Plays an answer of a script: pieces at its pace, whole calls, waits and failures."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from enginehost.errors import CallTimeout, EngineHostError, EngineUnavailable, ExecutionFailed, Overloaded
from enginehost.llm.message import Message, Role, Status, Type, Usage, new_id
from enginehost.llm.model import ModelRequest
from enginehost.llm.sse import cut_off
from enginehost_engines.models.script import SPEAKING, Answer, Item, filled, usage_of

_TOKENS = re.compile(r"\S+\s*|\s+")
_AT_ONCE = 64
"""Pieces after which others have their turn, where nothing sets a pace."""

_FOREVER = 365 * 24 * 3600.0
_RETRYABLE = frozenset({408, 409, 429})


@dataclass(slots=True)
class Pace:
    """Lets tokens through at a rate. One that is late catches up: the rate holds over the whole answer."""

    rate: float | None
    timeout: float | None
    model: str
    due: float = 0.0
    let_through: int = 0

    async def token(self) -> None:
        """Wait for the next token's time."""
        self.let_through += 1
        if self.rate is None:
            if not self.let_through % _AT_ONCE:
                await asyncio.sleep(0)
            return
        now = asyncio.get_running_loop().time()
        self.due = (self.due or now) + 1 / self.rate
        await self.rest(self.due - now)

    async def rest(self, seconds: float) -> None:
        """Say nothing for a while. Raises :class:`CallTimeout` where the caller does not wait so long."""
        if self.timeout is not None and seconds > self.timeout:
            await asyncio.sleep(self.timeout)
            raise _timed_out(self.model, self.timeout)
        if seconds > 0:
            await asyncio.sleep(seconds)
            self.due = max(self.due, 0.0)


async def play(
    answer: Answer, values: Mapping[str, str], request: ModelRequest, tokens: int
) -> AsyncGenerator[Message, None]:
    """The answer's messages; the last one has the usage."""
    model = request.model
    pace = Pace(answer.tokens_per_second, request.timeout, model)
    await pace.rest(answer.delay)
    last = max((at for at, item in enumerate(answer.items) if item.kind in SPEAKING), default=-1)
    if last < 0:
        await _do_all(answer, pace)
        yield _end(Type.TEXT, new_id(), usage_of(answer, model, {"input": tokens}))
        return
    for at, item in enumerate(answer.items):
        if item.kind in ("text", "reasoning"):
            id, kind = new_id(), Type(item.kind)
            for token in _tokens(item, values):
                await pace.token()
                yield Message(Role.ASSISTANT, kind, token, None, None, None, Status.OPEN, id)
            yield _end(kind, id, _usage(answer, model, tokens, pace) if at == last else None)
        elif item.kind in SPEAKING:
            await pace.token()
            usage = _usage(answer, model, tokens, pace) if at == last else None
            yield _whole(item, values, request, usage)
        else:
            await _do(item, pace)


async def _do_all(answer: Answer, pace: Pace) -> None:
    for item in answer.items:
        await _do(item, pace)


async def _do(item: Item, pace: Pace) -> None:
    if item.kind == "wait":
        pace.due = 0.0
        await pace.rest(item.value)
    elif item.kind == "hang":
        await pace.rest(_FOREVER)
    elif item.kind == "cut":
        raise cut_off()
    else:
        raise _error(item.value)


def _usage(answer: Answer, model: str, tokens: int, pace: Pace) -> Usage:
    return usage_of(answer, model, {"input": tokens, "output": pace.let_through})


def _tokens(item: Item, values: Mapping[str, str]) -> Iterator[str]:
    text = filled(item.value, values)
    for _ in range(item.repeat):
        for match in _TOKENS.finditer(text):
            yield match.group()


def _whole(item: Item, values: Mapping[str, str], request: ModelRequest, usage: Usage | None) -> Message:
    if item.kind == "data":
        content = orjson.dumps(filled(item.value, values)).decode()
        return Message(Role.ASSISTANT, Type.DATA, content, usage=usage, id=new_id())
    tool, args = item.value
    name = request.names.get(tool, tool)
    query: dict[str, Any] = {"tool": name, "id": new_id(), "args": filled(args, values)}
    return Message(Role.ASSISTANT, Type.TOOL_CALL, query=query, usage=usage, id=new_id())


def _end(kind: Type, id: str, usage: Usage | None) -> Message:
    return Message(Role.ASSISTANT, kind, usage=usage, id=id)


def _error(given: Mapping[str, Any]) -> EngineHostError:
    message = given["message"]
    if given["kind"] == "overloaded":
        return Overloaded(message, retry_after=float(given.get("retry_after", 1.0)))
    if given["kind"] == "unavailable":
        return EngineUnavailable(message, reason="scripted")
    status = given.get("status", 500)
    detail: dict[str, Any] = {
        "status": status,
        "retryable": given.get("retryable", status >= 500 or status in _RETRYABLE),
    }
    if "retry_after" in given:
        detail["retry_after"] = given["retry_after"]
    return ExecutionFailed(message, detail=detail)


def _timed_out(model: str, seconds: float) -> CallTimeout:
    error = CallTimeout(model, seconds, "it said nothing more")
    error.detail["retryable"] = True
    return error
