"""The streaming half of the call path: items one by one, each wait of them bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from math import isnan
from time import monotonic
from typing import Any

from enginehost.admission import Admission
from enginehost.drive import Wait, as_coroutine, drive
from enginehost.engine import CURRENT, Call, RunMode
from enginehost.errors import CallTimeout, EngineHostError, InvalidArguments, OutcomeUnknown, TooLarge
from enginehost.interrupts import is_from_a_signal
from enginehost.limits import Gate
from enginehost.runtime import Encode, Runtime, as_given, name_limit, shaped
from enginehost.schema_walk import TooMuch
from enginehost.threads import Threads
from enginehost.tracing import Tracing
from enginehost.validation import Validator, check_result
from enginehost.values import aside

CLOSE_SECONDS = 5.0
"""How long a stream that is left may take to clean up."""

_LOOK_EVERY = 256
"""Items between two looks at the loop, while a stream that never waits is collected."""

_TURN = 16
"""Items that a stream gives before others have their turn: each is work for its consumer."""

_STOPPED = "the host stopped before the stream ended"

_log = logging.getLogger("enginehost.streams")


def no_object(name: str, arguments: Any) -> InvalidArguments:
    """The error for arguments that are no mapping."""
    return InvalidArguments(f"{name}: the arguments must be an object, not {type(arguments).__name__}")


async def _check_item(name: str, validator: Validator, item: Any) -> None:
    try:
        check_result(name, validator, item, hurry=True)
    except TooMuch:
        await aside(check_result, name, validator, item)


class OpenStream:
    """A stream that has begun: what has to be given back and written down when it ends, once.

    ``holder`` is the task that has taken an item and not yet come for the next one.
    """

    __slots__ = (
        "arguments",
        "call",
        "count",
        "gate",
        "holder",
        "iterator",
        "over",
        "runtime",
        "span",
        "started",
    )

    def __init__(self, call: Call, arguments: Any, span: Any) -> None:
        self.call = call
        self.arguments = arguments
        self.span = span
        self.started = monotonic()
        self.runtime: Runtime | None = None
        self.gate: Gate | None = None
        self.iterator: AsyncGenerator[Any, None] | None = None
        self.count = 0
        self.holder: asyncio.Task[Any] | None = None
        self.over = False


class Streams(Admission):
    """Runs streams, and what else needs the loop's patience."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.tracing = Tracing()
        self.threads = Threads()
        self._waits: set[Wait] = set()
        self._open: set[OpenStream] = set()
        self._abandoning: asyncio.Task[None] | None = None

    async def stream(
        self,
        call: Call,
        arguments: Any,
        *,
        timeout: float | None = None,
        coerce: bool = False,
        encode: Encode = as_given,
    ) -> AsyncGenerator[Any, None]:
        """The items of a streaming function as they come; the one result of a plain function.

        ``timeout`` and ``TIMEOUT_SECONDS`` bound the whole stream; the host's default timeout
        bounds the wait for each item. Leaving early closes the function's generator.
        """
        name = call.function
        stream = OpenStream(
            call, arguments, self.tracing.start(call, current=False) if self.tracing.on else None
        )
        started = stream.started
        outcome, failure, checked = "ok", None, None
        self._open.add(stream)
        self.in_flight += 1
        try:
            runtime = self.admit(name, call.caller, CURRENT.get())
            runtime.stats.running += 1
            runtime.record.running += 1
            stream.runtime = runtime
            call.max_result_bytes = runtime.limit_for(encode)
            if arguments is None:
                stream.arguments = arguments = {}
            elif not isinstance(arguments, Mapping):
                raise no_object(name, arguments)
            if runtime.bucket is not None:
                runtime.bucket.take(name, started)
            limits = [
                limit for limit in (timeout, runtime.own_timeout) if limit is not None and not isnan(limit)
            ]
            whole = started + min(limits) if limits else None
            if call.deadline is not None:
                whole = min(whole, call.deadline) if whole is not None else call.deadline
            call.deadline = whole
            checked = await self._checked(runtime, arguments, call, coerce, started)
            if runtime.gate is not None and not runtime.gate.enter_now():
                await self._step(runtime.gate.enter, (name,), call, runtime, started)
            stream.gate = runtime.gate
            if not runtime.streams:
                # A thread gives its place back itself, when it has really ended.
                stream.gate = None if runtime.mode is RunMode.SYNC else runtime.gate
                result = await self._step(self._once, (runtime, checked, call), call, runtime, started)
                validator = runtime.result_validator
                result = await self._shaped(result, validator, encode, runtime, call, started)
                stream.holder = asyncio.current_task()
                yield result
                return
            stream.iterator = iterator = self._iterate(runtime, checked, call)
            while True:
                try:
                    item = await self._step(anext, (iterator,), call, runtime, started)
                except StopAsyncIteration:
                    return
                stream.count += 1
                validator = runtime.result_validator
                if call.large or not (validator is None or validator.at_once(item)):
                    item = await self._shaped(item, validator, encode, runtime, call, started)
                else:
                    item = encode(item, runtime)
                stream.holder = asyncio.current_task()
                yield item
                stream.holder = None
                if stream.over:
                    raise OutcomeUnknown(_STOPPED)
                if stream.count % _TURN == 0:  # neither a quick function nor a quick consumer makes this wait
                    await asyncio.sleep(0)
        except GeneratorExit:
            outcome = "cancelled"
            raise
        except BaseException as error:
            if type(error) is CallTimeout and stream.runtime is not None:
                name_limit(error, stream.runtime, timeout)
            failure = self.failure(call, error, ran=checked is not None)
            outcome = failure.code if isinstance(failure, EngineHostError) else "cancelled"
            if failure is error:
                raise
            raise failure from error
        finally:
            if not stream.over:
                await self._end(stream, outcome, failure)

    async def _end(self, stream: OpenStream, outcome: str, failure: BaseException | None) -> None:
        stream.over = True
        self._open.discard(stream)
        try:
            if stream.iterator is not None:
                await self._leave(stream.iterator, stream.call)
        finally:
            if stream.gate is not None:
                stream.gate.leave()
            self.in_flight -= 1
            seconds = monotonic() - stream.started
            self.ended(stream.call, stream.runtime, outcome, seconds, failure, stream.arguments, stream.count)
            if stream.span is not None:
                self.tracing.end(stream.span, outcome, failure)

    async def end_held(self, holder: asyncio.Task[Any] | None = None) -> None:
        """End the streams of which ``holder`` (anybody) has an item and does not take the next one.

        Whoever comes for it reads that the host stopped.
        """
        held = [one for one in self._open if one.holder and holder in (None, one.holder)]
        await asyncio.gather(*map(self._end_held, held))

    async def _end_held(self, stream: OpenStream) -> None:
        if stream.over or stream.holder is None:  # its reader has come meanwhile
            return
        if stream.iterator is None:  # the one result of a plain function has been taken
            await self._end(stream, "ok", None)
        else:
            failure = OutcomeUnknown(_STOPPED)
            await self._end(stream, failure.code, failure)

    async def _once(self, runtime: Runtime, arguments: dict[str, Any], call: Call) -> Any:
        if runtime.mode is RunMode.SYNC:
            return await self.threads.run(
                runtime.run, (arguments, call), runtime.gate.leave if runtime.gate is not None else None
            )
        return await runtime.run(arguments, call)

    async def _checked(
        self, runtime: Runtime, given: Mapping[str, Any], call: Call, coerce: bool, started: float
    ) -> dict[str, Any]:
        """What the function gets of ``given``: checked at once, or aside where that takes a while."""
        if not call.large:
            with suppress(TooMuch):
                return runtime.arguments(given, call.caller, coerce, hurry=True)
        work = (runtime.arguments, given, call.caller, coerce)
        return await self._step(aside, work, call, runtime, started)

    async def _shaped(
        self,
        result: Any,
        validator: Validator | None,
        encode: Encode,
        runtime: Runtime,
        call: Call,
        started: float,
    ) -> Any:
        """A result, or an item of one, checked and shaped: at once, or aside where that takes a while."""
        if not call.large:
            with suppress(TooMuch):
                return shaped(result, validator, encode, runtime, hurry=True)
        work = (shaped, result, validator, encode, runtime)
        return await self._step(aside, work, call, runtime, started)

    async def _step(
        self, step: Callable[..., Any], given: tuple[Any, ...], call: Call, runtime: Runtime, started: float
    ) -> Any:
        """One wait of a stream, bounded; the function sees its call while it runs."""
        if self.stopped:
            raise OutcomeUnknown(_STOPPED)
        now = monotonic()
        if call.deadline is None:
            deadline, limit = now + runtime.timeout, runtime.timeout
        else:
            deadline, limit = call.deadline, call.deadline - started
            if deadline <= now:
                raise CallTimeout(runtime.name, max(0.0, limit))
        token = CURRENT.set(call)
        try:
            coroutine = as_coroutine(step(*given))
            try:
                pending = coroutine.send(None)
            except StopIteration as done:
                return done.value
            return await drive(coroutine, pending, runtime.name, deadline, limit, self._waits)
        finally:
            CURRENT.reset(token)

    async def _collect(self, runtime: Runtime, arguments: dict[str, Any], call: Call) -> list[Any]:
        items: list[Any] = []
        size = 0
        iterator = self._iterate(runtime, arguments, call)
        try:
            async for item in iterator:
                validator = runtime.result_validator
                if validator is not None and not validator.at_once(item):
                    await _check_item(runtime.name, validator, item)
                items.append(item)
                size += len(item) + 3 if isinstance(item, str | bytes) else 2
                if size > runtime.max_result_bytes:
                    raise TooLarge(f"the result of {runtime.name}", limit=runtime.max_result_bytes)
                if len(items) % _LOOK_EVERY == 0:  # a generator that never waits would hold the loop
                    await asyncio.sleep(0)
        finally:
            await self._leave(iterator, call)
        return items

    async def _leave(self, iterator: AsyncGenerator[Any, None], call: Call) -> None:
        """Close a function's generator. What goes wrong then is logged: its caller has what it wanted."""
        token = CURRENT.set(call)
        try:
            coroutine = as_coroutine(iterator.aclose())
            try:
                pending = coroutine.send(None)
            except StopIteration:
                return
            deadline = monotonic() + CLOSE_SECONDS
            await drive(coroutine, pending, call.function, deadline, CLOSE_SECONDS, self._waits)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # the plugin boundary
            if is_from_a_signal(error):
                raise
            _log.warning("%s failed while its stream was closed", call.function, exc_info=True)
        finally:
            CURRENT.reset(token)

    def _iterate(self, runtime: Runtime, arguments: dict[str, Any], call: Call) -> AsyncGenerator[Any, None]:
        if runtime.mode is RunMode.ASYNC_STREAM:
            return runtime.run(arguments, call)
        return self.threads.iterate(runtime.run(arguments, call))

    def stop_waiting(self) -> int:
        """End every call that still waits with *the host stopped*; how many there were.

        :meth:`end_held` ends the streams whose consumer holds an item.
        """
        self.stopped = True
        waits = list(self._waits)
        for wait in waits:
            wait.stop()
        return len(waits)

    def abandon(self) -> None:
        """End every call now: the process is about to end. Those that do not listen run on."""
        self.accepting = False
        self.stop_waiting()
        self._abandoning = asyncio.get_running_loop().create_task(self.end_held())

    def write_off(self, busy: Call | None) -> None:
        """Record the calls that run on, from any thread, after :meth:`abandon`.

        ``busy`` is one that may hold up the loop, so that nothing else was ended; it is not known since when.
        """
        now = monotonic()
        left = {wait.call.span: (wait.call, now - wait.started) for wait in self._waits.copy() if wait.call}
        if busy is not None and self._abandoning is None:
            left.setdefault(busy.span, (busy, 0.0))
        failure = OutcomeUnknown("the host was killed before the call ended")
        for call, seconds in left.values():
            entry = self.catalog.get(call.function)
            runtime = entry.runtime if entry is not None else None
            self.ended(call, runtime, failure.code, seconds, failure, None, None)

    async def close(self) -> None:
        """Let go of the threads."""
        with suppress(asyncio.CancelledError):
            await self.threads.close()
