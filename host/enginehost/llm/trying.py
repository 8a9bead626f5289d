"""One request to a model: tries, repetitions, another model, and a bound on all of it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

from enginehost.errors import CallTimeout, EngineHostError, EngineUnavailable, ExecutionFailed
from enginehost.llm.failures import asks_for_another, may_pass
from enginehost.llm.message import Message, Type
from enginehost.llm.model import ModelRequest, Rows
from enginehost.llm.models import Served
from enginehost.llm.passage import Batches, Context, PlainForm, in_batches
from enginehost.llm.sse import cut_off
from enginehost.llm.usage import sensible
from enginehost.safe_text import explain, make_safe

LONGEST_PAUSE = 30.0
"""Seconds that back-off asks for at most."""

LONGEST_RETRY_AFTER = 120.0
"""Seconds of ``Retry-After`` that are waited; a provider that asks for more is told of at once."""

_log = logging.getLogger("enginehost.llm")

Other = Callable[[str], Served]
"""Finds a model engine by name; raises an error of the tree."""


class Attempt:
    """One request, asked of ``served`` and, where that cannot answer, of its fallback.

    ``model`` and ``served`` are those that answered, once the first piece has come.
    """

    def __init__(self, served: Served, rows: Rows, request: ModelRequest, other: Other) -> None:
        self.served = served
        self.request = request
        self._given = rows
        self._broken: Exception | None = None
        """What the rows themselves raised: it is whose rows they are that hears of it, as it is."""
        self._other = other
        self._own_names = {face: name for name, face in request.names.items() if face != name}

    def pieces(self, seconds: float | None) -> AsyncGenerator[Message, None]:
        """The answer as it comes. Raises the errors of the tree, each safe to be read by a caller."""
        source = self._asked(self.served, self.request.model, frozenset())
        return source if seconds is None else bounded(source, seconds, self.served.name)

    async def _asked(
        self, served: Served, model: str, asked: frozenset[str]
    ) -> AsyncGenerator[Message, None]:
        begun = False
        try:
            await served.enter()
            try:
                self.served = served
                self.request = replace(self.request, model=await served.model_id(model))
                async with aclosing(self._tried(served)) as source:
                    async for message in source:
                        begun = True
                        yield message
                return
            finally:
                served.leave()
        except EngineHostError as error:
            make_safe(error, served.engine.context.redact, own=False)
            if begun or not asks_for_another(error):
                raise
            asked |= {served.record.engine_id}
            fallback = self._fallback(served, asked)
            if fallback is None:
                raise
            _log.warning("%s answers in place of %s: %s", fallback.name, served.name, error.message)
        async with aclosing(self._asked(fallback, "", asked)) as source:
            async for message in source:
                yield message

    def _fallback(self, served: Served, asked: frozenset[str]) -> Served | None:
        name = served.config.fallback_model
        if not name:
            return None
        try:
            other = self._other(name)
        except EngineHostError as error:
            _log.warning("FALLBACK_MODEL of %s cannot answer: %s", served.name, error.message)
            return None
        return None if other.record.engine_id in asked else other

    async def _tried(self, served: Served) -> AsyncGenerator[Message, None]:
        """Ask one engine, again where that may help and nothing has come yet."""
        done = 0
        while True:
            done += 1
            begun = False
            try:
                async with aclosing(self._once(served)) as source:
                    async for message in source:
                        begun = True
                        yield message
                return
            except EngineHostError as error:
                pause = None if begun else _pause(error, served, done)
                if pause is None:
                    raise
                _log.info("%s is asked again in %.1f s: %s", served.name, pause, error.message)
            await asyncio.sleep(pause)

    async def _batches(self, form: PlainForm | None) -> Batches:
        try:
            async with aclosing(in_batches(self._given, form)) as batches:
                async for batch in batches:
                    yield batch
        except Exception as error:
            self._broken = error
            raise

    async def _once(self, served: Served) -> AsyncGenerator[Message, None]:
        breaker = served.breaker
        probing = breaker.enter()
        whole = begun = False
        try:
            # every try makes its body anew: `rows` begins again
            async with aclosing(served.engine.stream(Context(self._batches), self.request)) as source:
                async for message in source:
                    if not begun:
                        begun, breaker.failures = True, 0
                    whole = message.status != "open"
                    if message.usage is not None or message.type is Type.TOOL_CALL:
                        yield self._finished(message, served)
                    else:
                        yield message
            if not whole:
                raise cut_off("it ended in the middle of a message" if begun else "it holds nothing")
        except EngineHostError as error:
            if self._broken is not None:
                raise self._broken from None
            _judge(error, served)
            raise
        except Exception as error:  # the plugin boundary: a stranger's engine may raise anything
            if self._broken is not None:
                raise self._broken from None
            text = explain(error, served.engine.context.redact)
            detail = {"type": type(error).__name__, "retryable": False}
            raise ExecutionFailed(f"{served.name} failed: {text}", detail=detail) from error
        finally:
            if probing:
                breaker.left()

    def _finished(self, message: Message, served: Served) -> Message:
        """A message with the function's own name, and with what it cost."""
        query = message.query
        if message.type is Type.TOOL_CALL and query and (own := self._own_names.get(query.get("tool", ""))):
            message = replace(message, query={**query, "tool": own})
        usage = message.usage
        if usage is not None:
            usage = sensible(usage)
            cost = usage.cost if usage.cost is not None else served.config.cost(usage)
            usage = replace(usage, cost=cost, model=usage.model or self.request.model)
            message = replace(message, usage=usage)
        return message


def _judge(error: EngineHostError, served: Served) -> None:
    """Tell the breaker: a provider that answers with a refusal lives."""
    if isinstance(error, EngineUnavailable) and error.detail.get("reason") == "circuit open":
        return
    status = error.detail.get("status")
    lives = status < 500 if isinstance(status, int) else not may_pass(error)
    if lives:
        served.breaker.failures = 0
    else:
        served.breaker.failed(error.message)


def _pause(error: EngineHostError, served: Served, done: int) -> float | None:
    """Seconds to wait after ``done`` tries; ``None``: the error is final."""
    if done > served.config.retries or not may_pass(error):
        return None
    after = error.detail.get("retry_after", 0.0)
    if not isinstance(after, int | float) or after > LONGEST_RETRY_AFTER:
        return None
    bound: float = min(LONGEST_PAUSE, served.config.retry_seconds * 2.0 ** min(done - 1, 30))
    return after + random.uniform(0.0, bound)  # noqa: S311 - spreads load, hides nothing


async def bounded(
    source: AsyncGenerator[Message, None], seconds: float, name: str
) -> AsyncGenerator[Message, None]:
    """The items of ``source``, for so many seconds in all; then :class:`CallTimeout`.

    One timer for the whole stream: ``asyncio.timeout`` around each item would cost more than the item.
    """
    waiting: list[asyncio.Task[object] | None] = [None]
    passed: list[bool] = []

    def expire() -> None:
        passed.append(True)
        if waiting[0] is not None:
            waiting[0].cancel()

    def late() -> CallTimeout:
        return CallTimeout(
            name, seconds, "the model still answered", limit="TIMEOUT_SECONDS or total_timeout"
        )

    timer = asyncio.get_running_loop().call_later(max(0.0, seconds), expire)
    try:
        async with aclosing(source):
            while not passed:
                task = waiting[0] = asyncio.current_task()
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    return
                except asyncio.CancelledError:
                    if passed and task is not None and task.uncancel() == 0:
                        raise late() from None
                    raise
                finally:
                    waiting[0] = None
                yield item
            raise late()
    finally:
        timer.cancel()
