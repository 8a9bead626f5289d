"""Who may call what now, and the books of it: the first and the last step of every call."""

from __future__ import annotations

import asyncio
from random import getrandbits
from time import time
from typing import Any

from enginehost.caller import LOCAL, Caller
from enginehost.catalog import Catalog, Entry
from enginehost.engine import CURRENT, Call, EngineState
from enginehost.errors import (
    CallCancelled,
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    Forbidden,
    InvalidArguments,
    Overloaded,
    Unauthorized,
    UnknownFunction,
)
from enginehost.interrupts import is_from_a_signal
from enginehost.limits import number_of_calls
from enginehost.policy import CALL, VIEW, Policy
from enginehost.record import Recorder, Stats, keep_places
from enginehost.runtime import Runtime
from enginehost.safe_text import Redact, class_name, explain, make_safe
from enginehost.signature import UNREAD, FunctionSignature
from enginehost.trace_context import NO_TRACE, TRACE, TraceContext
from enginehost.values import NotJson

_MOST_NAME = 200
"""Characters of a name nobody has that are said and recorded."""


_NONE = FunctionSignature("")
"""What the policy is asked about where there is no function."""
_ABSENT = (EngineState.FAILED, EngineState.UNSUPPORTED, EngineState.LOADING)


def as_told(error: EngineHostError, caller: Caller) -> EngineHostError:
    """``error`` as ``caller`` gets it: who could show a proof and showed none is asked for one.

    That holds for every function such a caller may not see, so it does not tell which ones there are.
    """
    if caller.may_prove and not caller.authenticated and isinstance(error, UnknownFunction | Forbidden):
        return Unauthorized("anonymous callers may not call that; send Authorization: Bearer TOKEN")
    return error


def _tell_of_result(error: NotJson, name: str) -> None:
    """Say whose result has no JSON form, and what to do."""
    if not error.message.startswith(f"{name}: "):
        error.message = f"{name}: {error.message}"
        error.args = (error.message, *error.args[1:])
    if "no JSON number" in error.message:
        error.detail["hint"] = "return None in its place; the setting allow_nan writes null for it"


class Admission:
    """Lets calls in and writes down how they ended. Lives on one event loop.

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
        self.accepting = True
        self.not_yet = ""
        """Why an unknown name may yet appear: until the folder has been read for the first time."""
        self.in_flight = 0
        self.refused: dict[str, int] = {}
        self.stats: dict[str, Stats] = {}
        self._default_timeout = default_timeout
        self._max_result_bytes = max_result_bytes
        self._max_in_flight = max_in_flight
        self._keep_values = keep_values
        self._redact = redact
        self.stopped = False

    def entry(self, name: str, caller: Caller) -> Entry:
        """The function ``name`` as ``caller`` sees it.

        Raises :class:`UnknownFunction` (also where the caller may not view it) and
        :class:`EngineUnavailable` where its engine is known and cannot serve.
        """
        entry = self.visible(name, caller)
        if entry is not None:
            return entry
        # from here on all is as if there were none: neither the answer nor its time tells what is hidden
        if self.not_yet:
            raise EngineUnavailable(self.not_yet, state="loading")
        self._explain_absence(name, caller)
        near = self.catalog.nearest(
            name, lambda e: caller is LOCAL or self.policy.may_view(caller, e.signature)
        )
        raise UnknownFunction(name[:_MOST_NAME], nearest=near)

    def visible(self, name: str, caller: Caller) -> Entry | None:
        """The function ``name``, if there is one and ``caller`` may view it.

        The policy is asked in any case, so that the time it takes does not tell the one from the other.
        """
        entry = self.catalog.get(name)
        rights = self.policy.rights(caller, _NONE if entry is None else entry.function.signature)
        return entry if rights & VIEW else None

    def _explain_absence(self, name: str, caller: Caller) -> None:
        target = self.catalog.target(name)
        if target is not None and (
            caller is LOCAL or self.policy.may_view(caller, FunctionSignature(target, tags=(UNREAD,)))
        ):
            near = self.catalog.nearest(
                name, lambda e: caller is LOCAL or self.policy.may_view(caller, e.signature)
            )
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            text = f"{name} stands for {target}, which is not on the databus now{hint}"
            raise EngineUnavailable(text, state="failed", reason="no-provider")
        for record in self.catalog.declaring(name):
            if record.state not in _ABSENT:
                continue
            declared = next(one for one in record.promised if one.name == name)
            if caller is LOCAL or self.policy.may_view(caller, declared):
                reason = f": {record.reason}" if record.reason else ""
                text = f"{name} cannot be called, its engine is {record.state}{reason}"
                raise EngineUnavailable(text, state=str(record.state), reason=record.reason)

    def new_call(self, name: str, caller: Caller | None = None, arrived: TraceContext = NO_TRACE) -> Call:
        """A call of ``name`` with ids of its own, below the call whose code asks for it, if any.

        ``caller`` defaults to that call's, else to the program itself. ``arrived`` is the trace that came
        with a request.
        """
        current = CURRENT.get()
        if current is None and not arrived.trace:
            arrived = TRACE.get()
        span, trace, parent = getrandbits(64) or 1, arrived.trace, arrived.parent
        if current is None:
            return Call(name, caller or LOCAL, None, span, trace or getrandbits(128) or 1, parent, arrived)
        caller, deadline = caller or current.caller, current.deadline
        if trace:
            return Call(name, caller, deadline, span, trace, parent, arrived)
        return Call(name, caller, deadline, span, current.trace, current.span)

    def admit(self, name: str, caller: Caller, above: Any) -> Runtime:
        """The function, if it may be called now. ``above`` is the call whose code makes this one, if any."""
        if not self.accepting and (self.stopped or not isinstance(above, Call)):
            raise EngineUnavailable("the host is stopping", state="closing")
        if self.in_flight > self._max_in_flight:
            raise Overloaded(f"the host runs {number_of_calls(self._max_in_flight)} at once")
        entry = self.catalog.get(name)
        rights = self.policy.rights(caller, _NONE if entry is None else entry.function.signature)
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

    def refuse(self, call: Call, error: EngineHostError, *, peer: str = "") -> None:
        """Record a call that a face refuses with ``error`` before it is made.

        ``peer`` is the address of a client that did not get as far as being known.
        """
        self.ended(call, None, error.code, 0.0, error, None, None, peer)

    def failure(self, call: Call, error: BaseException, *, ran: bool) -> BaseException:
        """What the caller gets for ``error``: itself where it says all, else an error of the tree.

        Every error leaves through here, so that none holds a secret, a traceback or a local path. ``ran``:
        the function was reached, and may have made the error.
        """
        name = call.function
        if isinstance(error, EngineHostError):
            if isinstance(error, NotJson):
                _tell_of_result(error, name)
            make_safe(error, self._redact, own=not ran)
            return as_told(error, call.caller)
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling() == 0:
                return CallCancelled(f"{name} cancelled itself")
            return error
        if isinstance(error, GeneratorExit) or is_from_a_signal(error):
            return error
        # Everything else, SystemExit and its own KeyboardInterrupt too: a function must not end the host.
        text, kind = explain(error, self._redact), class_name(error, self._redact)
        return ExecutionFailed(f"{name} failed: {text}", detail={"type": kind})

    def ended(
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
        """Write down how ``call`` ended; ``runtime`` is that of the function, where it was let in."""
        engine_id = ""
        if isinstance(failure, InvalidArguments):
            keep_places(failure, arguments, frozenset() if runtime is None else runtime.declared)
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
