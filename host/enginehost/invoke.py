"""The one way in: every call of every face runs through :class:`Invoker`.

authorise → rate → validate → concurrency → run under a deadline → shape the result → record.
(Authenticating is the face's; it hands over a :class:`~enginehost.caller.Caller`.)
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from types import CoroutineType
from typing import Any

from enginehost.drive import as_coroutine, drive
from enginehost.engine import CURRENT, Call, RunMode
from enginehost.errors import CallTimeout, EngineHostError
from enginehost.runtime import Encode, Runtime, as_given, name_limit
from enginehost.streams import Streams, no_object


class Invoker(Streams):
    """Runs calls. Lives on one event loop."""

    async def call(
        self,
        call: Call,
        arguments: Any,
        *,
        timeout: float | None = None,
        coerce: bool = False,
        encode: Encode = as_given,
    ) -> Any:
        """Run ``name`` once and give its result.

        ``timeout`` (seconds) can only shorten what the function and the host allow. Raises the
        errors of :mod:`enginehost.errors`; an outside cancellation stays ``CancelledError``.
        """
        name = call.function
        started = monotonic()
        runtime: Runtime | None = None
        span = self.tracing.start(call) if self.tracing.on else None
        token = CURRENT.set(call)
        outcome, failure, result, checked = "ok", None, None, None
        self.in_flight += 1
        try:
            runtime = self.admit(name, call.caller, token.old_value)
            call.max_result_bytes = runtime.limit_for(encode)
            runtime.stats.running += 1
            runtime.record.running += 1
            if arguments is None:
                arguments = {}
            elif type(arguments) is not dict and not isinstance(arguments, Mapping):
                raise no_object(name, arguments)
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
                and (runtime.whole is None or runtime.whole.leaves(arguments))
                and runtime.validator.at_once(arguments)
            ):
                checked = arguments.copy()
            else:
                checked = await self._checked(runtime, arguments, call, coerce, started)
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
            validator = None if runtime.streams else runtime.result_validator
            if call.large or not (validator is None or validator.at_once(result)):
                return await self._shaped(result, validator, encode, runtime, call, started)
            return encode(result, runtime)
        except BaseException as error:
            if type(error) is CallTimeout and runtime is not None:
                name_limit(error, runtime, timeout)
            failure = self.failure(call, error, ran=checked is not None)
            outcome = failure.code if isinstance(failure, EngineHostError) else "cancelled"
            result = None  # one that was refused is for nobody, the audit included
            if failure is error:
                raise
            raise failure from error
        finally:
            CURRENT.reset(token)
            self.in_flight -= 1
            self.ended(call, runtime, outcome, monotonic() - started, failure, arguments, result)
            if span is not None:
                self.tracing.end(span, outcome, failure)

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
