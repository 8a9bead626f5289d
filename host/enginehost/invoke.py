"""The one way in: every call of every face runs through :class:`Invoker`.

authorise → rate → validate → concurrency → run under a deadline → shape the result → record.
(Authenticating is the face's; it hands over a :class:`~enginehost.caller.Caller`.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from math import isnan
from random import getrandbits
from time import monotonic, time
from types import CoroutineType
from typing import Any

from enginehost.caller import LOCAL, Caller
from enginehost.catalog import Catalog, Entry
from enginehost.drive import Wait, as_coroutine, drive
from enginehost.engine import CURRENT, Call, EngineState, RunMode
from enginehost.errors import (
    CallCancelled,
    CallTimeout,
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    Forbidden,
    InvalidArguments,
    Overloaded,
    TooLarge,
    Unauthorized,
    UnknownFunction,
)
from enginehost.limits import number_of_calls
from enginehost.policy import CALL, VIEW, Policy
from enginehost.record import Recorder, Stats
from enginehost.runtime import Runtime
from enginehost.safe_text import Redact, class_name, explain, make_safe
from enginehost.threads import Threads
from enginehost.tracing import Tracing
from enginehost.validation import check_result
from enginehost.values import encode as encode_json

CLOSE_SECONDS = 5.0
"""How long a stream that is left may take to clean up."""

_MOST_NAME = 200
"""Characters of a name nobody has that are said and recorded."""

_LOOK_EVERY = 256
"""Items between two looks at the loop, while a stream that never waits is collected."""

_TURN = 16
"""Items that a stream gives before others have their turn: each is work for its consumer."""

_log = logging.getLogger("enginehost.invoke")

Encode = Callable[[Any, Runtime], Any]
"""Shapes a result for a face; may raise."""


def as_told(error: EngineHostError, caller: Caller) -> EngineHostError:
    """``error`` as ``caller`` gets it: who could show a proof and showed none is asked for one.

    That holds for every function such a caller may not see, so it does not tell which ones there are.
    """
    if caller.may_prove and not caller.authenticated and isinstance(error, UnknownFunction | Forbidden):
        return Unauthorized("anonymous callers may not call that; send Authorization: Bearer TOKEN")
    return error


def _no_object(name: str, arguments: Any) -> InvalidArguments:
    return InvalidArguments(f"{name}: the arguments must be an object, not {type(arguments).__name__}")


def as_given(result: Any, runtime: Runtime) -> Any:
    """The result as the function gave it; weighed only where its file sets ``MAX_RESULT_BYTES``."""
    limit = runtime.own_max_result_bytes
    if limit is not None and (size := len(encode_json(result, allow_nan=True))) > limit:
        raise TooLarge(f"the result of {runtime.name}", limit=limit, size=size)
    return result


class Invoker:
    """Runs calls. Lives on one event loop.

    ``redact`` takes known secrets out of what callers read of errors.
    """

    def __init__(
        self,
        catalog: Catalog,
        policy: Policy,
        recorder: Recorder,
        *,
        default_timeout: float,
        max_result_bytes: int,
        max_in_flight: int,
        keep_values: bool,
        redact: Redact,
    ) -> None:
        self.catalog = catalog
        self.policy = policy
        self.recorder = recorder
        self.tracing = Tracing()
        self.threads = Threads()
        self.accepting = True
        self.loading = False
        """While the folder is read for the first time an unknown name may yet appear."""
        self.in_flight = 0
        self.refused: dict[str, int] = {}
        self.stats: dict[str, Stats] = {}
        self._default_timeout = default_timeout
        self._max_result_bytes = max_result_bytes
        self._max_in_flight = max_in_flight
        self._keep_values = keep_values
        self._redact = redact
        self._waits: set[Wait] = set()
        self._stopped = False

    def entry(self, name: str, caller: Caller) -> Entry:
        """The function ``name`` as ``caller`` sees it.

        Raises :class:`UnknownFunction` (also where the caller may not view it) and
        :class:`EngineUnavailable` where its engine is known and cannot serve.
        """
        entry = self.catalog.get(name)
        if entry is not None and (caller is LOCAL or self.policy.may_view(caller, entry.function.signature)):
            return entry
        if entry is None:
            if self.loading:
                raise EngineUnavailable("the host is still loading its folder", state="loading")
            self._explain_absence(name, caller)
        near = self.catalog.nearest(
            name, lambda e: caller is LOCAL or self.policy.may_view(caller, e.signature)
        )
        raise UnknownFunction(name[:_MOST_NAME], nearest=near)

    def _explain_absence(self, name: str, caller: Caller) -> None:
        for record in self.catalog.records.values():
            declared = record.declared
            if (
                declared is None
                or declared.name != name
                or record.state
                not in (
                    EngineState.FAILED,
                    EngineState.LOADING,
                )
            ):
                continue
            if caller is LOCAL or self.policy.may_view(caller, declared):
                reason = f": {record.reason}" if record.reason else ""
                text = f"{name} cannot be called, its engine is {record.state}{reason}"
                raise EngineUnavailable(text, state=str(record.state), reason=record.reason)

    async def call(
        self,
        name: str,
        arguments: Any,
        *,
        caller: Caller | None = None,
        timeout: float | None = None,
        trace: int = 0,
        parent: int = 0,
        coerce: bool = False,
        encode: Encode = as_given,
        calls: list[Call] | None = None,
    ) -> Any:
        """Run ``name`` once and give its result.

        ``timeout`` (seconds) can only shorten what the function and the host allow. Raises the
        errors of :mod:`enginehost.errors`; an outside cancellation stays ``CancelledError``.
        ``calls`` is given the call as soon as it has its ids (faces show them).
        """
        call = self._new_call(name, caller, trace, parent)
        started = monotonic()
        runtime: Runtime | None = None
        span = self.tracing.start(call) if self.tracing.on else None
        if calls is not None:
            calls.append(call)
        token = CURRENT.set(call)
        outcome, failure, result, checked = "ok", None, None, None
        self.in_flight += 1
        try:
            runtime = self._admit(name, call.caller, token.old_value)
            runtime.stats.running += 1
            runtime.record.running += 1
            if arguments is None:
                arguments = {}
            elif type(arguments) is not dict and not isinstance(arguments, Mapping):
                raise _no_object(name, arguments)
            limit = timeout if timeout is not None and timeout <= runtime.timeout else runtime.timeout
            deadline = started + limit
            if call.deadline is not None and call.deadline < deadline:
                deadline = call.deadline
            call.deadline = deadline
            if deadline <= started:
                raise CallTimeout(name, max(0.0, limit))
            if runtime.bucket is not None:
                runtime.bucket.take(name, started)
            if (
                runtime.plain
                and not coerce
                and type(arguments) is dict
                and runtime.validator.is_valid(arguments)
            ):
                checked = arguments.copy()
            else:
                checked = runtime.arguments(arguments, call.caller, coerce)
            if runtime.mode is RunMode.ASYNC and runtime.gate is None:
                coroutine = runtime.run(checked, call)
                if type(coroutine) is not CoroutineType:
                    coroutine = as_coroutine(coroutine)
            else:
                coroutine = self._slowly(runtime, checked, call)
            try:
                pending = coroutine.send(None)
            except StopIteration as done:
                result = done.value
            else:
                result = await drive(coroutine, pending, name, deadline, deadline - started, self._waits)
            if runtime.result_validator is not None and not runtime.streams:
                check_result(name, runtime.result_validator, result)
            return encode(result, runtime)
        except BaseException as error:
            failure = self._failure(call, error, ran=checked is not None)
            outcome = failure.code if isinstance(failure, EngineHostError) else "cancelled"
            if failure is error:
                raise
            raise failure from error
        finally:
            CURRENT.reset(token)
            self.in_flight -= 1
            self._ended(call, runtime, outcome, monotonic() - started, failure, arguments, result)
            if span is not None:
                self.tracing.end(span, outcome, failure)

    def refuse(
        self,
        name: str,
        error: EngineHostError,
        *,
        caller: Caller,
        trace: int = 0,
        parent: int = 0,
        peer: str = "",
    ) -> Call:
        """Record a call that a face refuses with ``error`` before it is made; its id is for the caller.

        ``peer`` is the address of a client that did not get as far as being known.
        """
        call = self._new_call(name, caller, trace, parent)
        self._ended(call, None, error.code, 0.0, error, None, None, peer)
        return call

    def _new_call(self, name: str, caller: Caller | None, trace: int, parent: int) -> Call:
        current = CURRENT.get()
        span = getrandbits(64) or 1
        if current is None:
            return Call(name, caller or LOCAL, None, span, trace or getrandbits(128) or 1, parent)
        if trace:
            return Call(name, caller or current.caller, current.deadline, span, trace, parent)
        return Call(name, caller or current.caller, current.deadline, span, current.trace, current.span)

    def _admit(self, name: str, caller: Caller, above: Any) -> Runtime:
        """The function, if it may be called now. ``above`` is the call whose code makes this one, if any."""
        if not self.accepting and (self._stopped or not isinstance(above, Call)):
            raise EngineUnavailable("the host is stopping", state="closing")
        if self.in_flight > self._max_in_flight:
            raise Overloaded(f"the host runs {number_of_calls(self._max_in_flight)} at once")
        entry = self.catalog.get(name)
        rights = self.policy.rights(caller, entry.function.signature) if entry is not None else 0
        if entry is None or not rights & VIEW:
            entry = self.entry(name, caller)  # says why there is none
        if not rights & CALL:
            raise Forbidden(f"{caller.subject} may not call {name}")
        return entry.runtime or self._prepare(entry)

    def _prepare(self, entry: Entry) -> Runtime:
        stats = self.stats.setdefault(entry.name, Stats())
        stats.signature = entry.signature
        entry.runtime = Runtime(entry, stats, self._default_timeout, self._max_result_bytes)
        return entry.runtime

    async def _slowly(self, runtime: Runtime, arguments: dict[str, Any], call: Call) -> Any:
        """Everything but an ungated ``async def``: wait for a place, use a thread, collect a stream."""
        gate = runtime.gate
        if gate is not None and not gate.enter_now():
            await gate.enter(runtime.name)
        leave = gate.leave if gate is not None else None
        if runtime.mode is RunMode.SYNC:
            return await self.threads.run(runtime.run, (arguments, call), leave)
        try:
            if runtime.mode is RunMode.ASYNC:
                return await runtime.run(arguments, call)
            return await self._collect(runtime, arguments, call)
        finally:
            if leave is not None:
                leave()

    async def _collect(self, runtime: Runtime, arguments: dict[str, Any], call: Call) -> list[Any]:
        items: list[Any] = []
        size = 0
        iterator = self._iterate(runtime, arguments, call)
        try:
            async for item in iterator:
                if runtime.result_validator is not None:
                    check_result(runtime.name, runtime.result_validator, item)
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
        except (Exception, SystemExit):  # noqa: BLE001 - the plugin boundary
            _log.warning("%s failed while its stream was closed", call.function, exc_info=True)
        finally:
            CURRENT.reset(token)

    def _iterate(self, runtime: Runtime, arguments: dict[str, Any], call: Call) -> AsyncGenerator[Any, None]:
        if runtime.mode is RunMode.ASYNC_STREAM:
            return runtime.run(arguments, call)
        return self.threads.iterate(runtime.run(arguments, call))

    async def stream(
        self,
        name: str,
        arguments: Any,
        *,
        caller: Caller | None = None,
        timeout: float | None = None,
        trace: int = 0,
        parent: int = 0,
        coerce: bool = False,
        encode: Encode = as_given,
        calls: list[Call] | None = None,
    ) -> AsyncGenerator[Any, None]:
        """The items of a streaming function as they come; the one result of a plain function.

        ``timeout`` and ``TIMEOUT_SECONDS`` bound the whole stream; the host's default timeout
        bounds the wait for each item. Leaving early closes the function's generator.
        """
        call = self._new_call(name, caller, trace, parent)
        started = monotonic()
        runtime: Runtime | None = None
        span = self.tracing.start(call, current=False) if self.tracing.on else None
        if calls is not None:
            calls.append(call)
        outcome, failure, count, checked = "ok", None, 0, None
        gate = iterator = None
        self.in_flight += 1
        try:
            runtime = self._admit(name, call.caller, CURRENT.get())
            runtime.stats.running += 1
            runtime.record.running += 1
            if arguments is None:
                arguments = {}
            elif not isinstance(arguments, Mapping):
                raise _no_object(name, arguments)
            if runtime.bucket is not None:
                runtime.bucket.take(name, started)
            checked = runtime.arguments(arguments, call.caller, coerce)
            limits = [
                limit for limit in (timeout, runtime.own_timeout) if limit is not None and not isnan(limit)
            ]
            whole = started + min(limits) if limits else None
            if call.deadline is not None:
                whole = min(whole, call.deadline) if whole is not None else call.deadline
            call.deadline = whole
            if runtime.gate is not None and not runtime.gate.enter_now():
                await self._step(runtime.gate.enter, (name,), call, runtime, started)
            gate = runtime.gate
            if not runtime.streams:
                # A thread gives its place back itself, when it has really ended.
                gate = None if runtime.mode is RunMode.SYNC else gate
                result = await self._step(self._once, (runtime, checked, call), call, runtime, started)
                yield encode(result, runtime)
                return
            iterator = self._iterate(runtime, checked, call)
            while True:
                try:
                    item = await self._step(anext, (iterator,), call, runtime, started)
                except StopAsyncIteration:
                    return
                count += 1
                if runtime.result_validator is not None:
                    check_result(name, runtime.result_validator, item)
                yield encode(item, runtime)
                if count % _TURN == 0:  # neither a quick function nor a quick consumer makes this wait
                    await asyncio.sleep(0)
        except GeneratorExit:
            outcome = "cancelled"
            raise
        except BaseException as error:
            failure = self._failure(call, error, ran=checked is not None)
            outcome = failure.code if isinstance(failure, EngineHostError) else "cancelled"
            if failure is error:
                raise
            raise failure from error
        finally:
            try:
                if iterator is not None:
                    await self._leave(iterator, call)
            finally:
                if gate is not None:
                    gate.leave()
                self.in_flight -= 1
                self._ended(call, runtime, outcome, monotonic() - started, failure, arguments, count)
                if span is not None:
                    self.tracing.end(span, outcome, failure)

    async def _once(self, runtime: Runtime, arguments: dict[str, Any], call: Call) -> Any:
        if runtime.mode is RunMode.SYNC:
            return await self.threads.run(
                runtime.run, (arguments, call), runtime.gate.leave if runtime.gate is not None else None
            )
        return await runtime.run(arguments, call)

    async def _step(
        self, step: Callable[..., Any], given: tuple[Any, ...], call: Call, runtime: Runtime, started: float
    ) -> Any:
        """One wait of a stream, bounded; the function sees its call while it runs."""
        if self._stopped:
            raise EngineUnavailable("the host stopped before the stream ended", state="closing")
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

    def _failure(self, call: Call, error: BaseException, *, ran: bool) -> BaseException:
        """What the caller gets for ``error``: itself where it says all, else an error of the tree.

        Every error leaves through here, so that none holds a secret, a traceback or a local path. ``ran``:
        the function was reached, and may have made the error.
        """
        name = call.function
        if isinstance(error, EngineHostError):
            make_safe(error, self._redact, own=not ran)
            return as_told(error, call.caller)
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling() == 0:
                return CallCancelled(f"{name} cancelled itself")
            return error
        if isinstance(error, KeyboardInterrupt | GeneratorExit):
            return error
        # Everything else, SystemExit too: a function must not end the host.
        text, kind = explain(error, self._redact), class_name(error, self._redact)
        return ExecutionFailed(f"{name} failed: {text}", detail={"type": kind})

    def _ended(
        self,
        call: Call,
        runtime: Runtime | None,
        outcome: str,
        seconds: float,
        failure: BaseException | None,
        arguments: Any,
        result: Any,
        peer: str = "",
    ) -> None:
        engine_id = ""
        if runtime is None:
            self.refused[outcome] = self.refused.get(outcome, 0) + 1
        else:
            runtime.stats.running -= 1
            runtime.stats.add(outcome, seconds)
            record = runtime.record
            engine_id = record.engine_id
            record.running -= 1
            if record.idle is not None and record.running == 0:
                record.idle()
        caller = call.caller
        keep = self._keep_values
        self.recorder.put(
            (
                time(),
                call.function if runtime is not None else call.function[:_MOST_NAME],
                engine_id,
                caller.subject,
                caller.tenant,
                caller.face,
                call.span,
                call.trace,
                call.parent,
                outcome,
                seconds,
                failure,
                arguments if keep else None,
                result if keep else None,
                peer,
            )
        )

    def stop_waiting(self) -> int:
        """End every call that still waits with *the host stopped*; how many there were.

        Streams whose consumer holds an item end at their next step.
        """
        self._stopped = True
        waits = list(self._waits)
        for wait in waits:
            wait.stop()
        return len(waits)

    async def close(self) -> None:
        """Let go of the threads."""
        with suppress(asyncio.CancelledError):
            await self.threads.close()
