"""The one way to talk to a model, whoever provides it.

::

    llm = host.llm("gpt")
    answer = await llm.send("Why is the sky blue?")          # answer.text
    async for message in llm.send(rows, stream=True): …      # pieces as they come
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from enginehost.call import CURRENT
from enginehost.errors import EngineHostError, InvalidRequest
from enginehost.llm import spans
from enginehost.llm.answer import Answer, gathered, structured
from enginehost.llm.input import Input, rows_of
from enginehost.llm.message import Message, Type, Usage
from enginehost.llm.option_checks import checked
from enginehost.llm.options import Form, Options, Signature, form_of, request_of
from enginehost.llm.trying import Attempt
from enginehost.safe_text import make_safe

if TYPE_CHECKING:
    from enginehost.llm.models import Models, Served
    from enginehost.tracing import Tracing


class LLMService:
    """Talks to one model engine, found by ``name`` at each request, so that a newer file takes effect.

    Usable at once from many tasks of the host's event loop.
    """

    def __init__(self, models: Models, name: str, signature: Signature, tracing: Tracing) -> None:
        self._models = models
        self._name = name
        self._signature = signature
        self._tracing = tracing

    @overload
    def send(
        self, given: Input, *, stream: Literal[False] = False, **options: Unpack[Options]
    ) -> Coroutine[Any, Any, Answer]: ...

    @overload
    def send(
        self, given: Input, *, stream: Literal[True], **options: Unpack[Options]
    ) -> AsyncGenerator[Message, None]: ...

    def send(
        self, given: Input, *, stream: bool = False, **options: Unpack[Options]
    ) -> Coroutine[Any, Any, Answer] | AsyncGenerator[Message, None]:
        """Ask the model. ``given`` is text, a message, several, or an async iterable of messages.

        Awaited, it gives the whole :class:`~enginehost.llm.answer.Answer`. With ``stream`` it is an async
        iterator of messages as they come, in pieces (see :mod:`enginehost.llm.message`); a reader that stops
        reading stops the provider, and closing the iterator closes its connection. ``options`` are those of
        :class:`~enginehost.llm.options.Options`.

        Raises the errors of :mod:`enginehost.errors`; ``detail["retryable"]`` says whether another try may
        help. What can be repeated has been.
        """
        asked = checked(options)
        form = form_of(asked.get("schema"))
        if not stream:
            return self._send(given, asked, form)
        pieces = self._pieces(given, asked, form)
        return pieces if form is None else self._checked(pieces, form)

    async def models(self) -> Sequence[str]:
        """The ids that the provider lists."""
        return tuple(await self._served().engine.models())

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector of the engine's default model for each text, in order.

        Raises ``InvalidRequest`` for an engine that has none, and what :meth:`send` raises.
        """
        served = self._served()
        embed = getattr(served.engine, "embed", None)
        if embed is None:
            raise InvalidRequest(f"{served.name} gives no embeddings", detail={"reason": "no-embeddings"})
        await served.enter()
        try:
            return await embed(await served.model_id(""), list(texts))
        except EngineHostError as error:
            make_safe(error, served.engine.context.redact, own=False)
            raise
        finally:
            served.leave()

    @property
    def engine_id(self) -> str:
        """The id of the engine that answers now. Raises as :meth:`send` does."""
        return self._served().record.engine_id

    def _served(self) -> Served:
        return self._models.find(self._name)

    async def _send(self, given: Input, options: Mapping[str, Any], form: Form | None) -> Answer:
        async with aclosing(self._pieces(given, options, form)) as pieces:
            answer = await gathered(pieces)
        if form is not None:
            answer.data = form.value(structured(answer))
        return answer

    async def _checked(
        self, pieces: AsyncGenerator[Message, None], form: Form
    ) -> AsyncGenerator[Message, None]:
        """The pieces; a structured answer is checked at its end, when its reader has all of it."""
        data: list[Message] = []
        async with aclosing(pieces):
            async for message in pieces:
                if message.type is not Type.REASONING:
                    data.append(message)
                yield message
        form.value(structured(await gathered(_each(data))))

    async def _pieces(
        self, given: Input, options: Mapping[str, Any], form: Form | None
    ) -> AsyncGenerator[Message, None]:
        served = self._served()
        request = request_of(options, self._signature, form)
        with rows_of(given) as rows:
            content = spans.Content() if self._tracing.steps.values else None
            watched = rows if content is None else content.read(rows)
            attempt = Attempt(served, watched, request, self._models.find)
            seconds = _seconds(options.get("total_timeout"), served.timeout)
            async with aclosing(self._counted(attempt, seconds, content)) as pieces:
                async for message in pieces:
                    yield message

    async def _counted(
        self, attempt: Attempt, seconds: float | None, content: spans.Content | None
    ) -> AsyncGenerator[Message, None]:
        started = time.monotonic()
        usage: Usage | None = None
        failure: BaseException | None = None
        outcome = "cancelled"  # also where the reader leaves
        span = spans.start(self._tracing, attempt)
        step = spans.ModelStep(self._tracing, attempt, span, content)
        try:
            async with aclosing(attempt.pieces(seconds)) as pieces:
                async for message in pieces:
                    if message.usage is not None:
                        usage = message.usage
                    if content is not None:
                        content.said(message)
                    yield message
            outcome = "ok"
        except EngineHostError as error:
            failure, outcome = error, error.code
            raise
        finally:
            spent = time.monotonic() - started
            engine_id, model = attempt.served.record.engine_id, attempt.request.model
            self._models.count(engine_id, model).ended(outcome, spent, usage)
            spans.end(span, attempt, usage, failure, outcome)
            step.end(usage, outcome)


async def _each(messages: list[Message]) -> AsyncGenerator[Message, None]:
    for message in messages:
        yield message


def _seconds(asked: float | None, of_file: float | None) -> float | None:
    """How long a request may take: what was asked for, the file allows and the running call has left."""
    call = CURRENT.get()
    left = None if call is None or call.deadline is None else call.deadline - time.monotonic()
    limits = [limit for limit in (asked, of_file, left) if limit is not None]
    return min(limits) if limits else None


__all__ = ["Answer", "Input", "LLMService", "Options"]
