"""What the call path keeps of one function: compiled at its first call, so that unused ones cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from enginehost.caller import Caller
from enginehost.catalog import Entry
from enginehost.engine import RunMode
from enginehost.errors import CallTimeout, TooLarge
from enginehost.limits import Gate, TokenBucket
from enginehost.record import Stats
from enginehost.schema_references import property_names
from enginehost.validation import (
    Validator,
    check_arguments,
    check_result,
    closed,
    coerced,
    defaults,
    refuse_names,
)
from enginehost.values import encode
from enginehost.whole_numbers import whole_numbers

_CALLER_FIELDS = ("subject", "tenant", "face", "scopes")


class Runtime:
    """One function, ready to be called."""

    __slots__ = (
        "_declared",
        "bind",
        "bucket",
        "coerce",
        "defaults",
        "gate",
        "max_result_bytes",
        "mode",
        "name",
        "own_max_result_bytes",
        "own_timeout",
        "plain",
        "record",
        "result_validator",
        "run",
        "schema",
        "stats",
        "streams",
        "timeout",
        "validator",
        "whole",
    )

    def __init__(self, entry: Entry, stats: Stats, default_timeout: float, max_result_bytes: int) -> None:
        function, limits = entry.function, entry.function.limits
        self.name = function.signature.name
        self.record = entry.record
        self.run = function.run
        self.mode = function.mode
        self.streams = function.mode in (RunMode.ASYNC_STREAM, RunMode.SYNC_STREAM)
        self.schema = function.signature.parameters
        self.validator = Validator(closed(self.schema))
        result = function.signature.result
        self.result_validator = Validator(result) if result else None
        self.whole = whole_numbers(self.schema)
        self.defaults = defaults(self.schema)
        self.bind = dict(function.bind)
        self.coerce = function.coerce_text
        self._declared: frozenset[str] | None = None
        self.plain = not (self.defaults or self.bind or self.coerce)
        self.own_timeout = limits.timeout
        self.timeout = limits.timeout or default_timeout
        self.own_max_result_bytes = limits.max_result_bytes
        self.max_result_bytes = limits.max_result_bytes or max_result_bytes
        self.gate = Gate(limits.max_concurrency, limits.queue_limit) if limits.max_concurrency else None
        self.bucket = TokenBucket(limits.rate, limits.burst) if limits.rate else None
        self.stats = stats

    def limit_for(self, encode: Encode) -> int | None:
        """How long a result may be that is shaped by ``encode``."""
        return self.own_max_result_bytes if encode is as_given else self.max_result_bytes

    def arguments(
        self, given: Mapping[str, Any], caller: Caller, coerce: bool, *, hurry: bool = False
    ) -> dict[str, Any]:
        """What the function gets: ``given`` coerced where allowed, checked, with defaults and bound values.

        Whole numbers that are declared as integers are of Python's type for them.

        Raises :class:`~enginehost.errors.InvalidArguments`; ``hurry`` as in
        :class:`~enginehost.validation.Validator`.
        """
        arguments: Any = given
        if coerce or self.coerce:
            arguments = coerced(self.schema, given)
        if self.defaults:
            arguments = self.defaults | dict(arguments)
        check_arguments(self.name, self.validator, arguments, hurry=hurry)
        arguments = dict(arguments)
        if self.whole is not None:
            arguments = self.whole.made(arguments, hurry=hurry)
        if self.bind:
            refuse_names(self.name, self.bind.keys() & given.keys(), self.schema)
            arguments.update({name: _bound(value, caller) for name, value in self.bind.items()})
        return arguments

    @property
    def declared(self) -> frozenset[str]:
        """The names of all properties that the schema declares, anywhere in it."""
        if self._declared is None:
            self._declared = property_names(self.schema)
        return self._declared


def _bound(value: Any, caller: Caller) -> Any:
    """A bound value; ``$caller.subject`` and its like are read from the caller, ``$$`` is a literal ``$``."""
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    if value.startswith("$$"):
        return value[1:]
    field = value.removeprefix("$caller.")
    if field == value or field not in _CALLER_FIELDS:
        return value
    found = getattr(caller, field)
    return sorted(found) if isinstance(found, frozenset) else found


_SAME_SECONDS = 0.002
"""Two times that differ by less are one: an error has milliseconds."""


def name_limit(error: CallTimeout, runtime: Runtime, timeout: float | None) -> None:
    """Let the error of a call of ``runtime`` say whose limit passed; ``timeout`` is the caller's, if any.

    The error of another function, or of an engine, says that itself.
    """
    if error.name != runtime.name or "limit" in error.detail:
        return
    seconds = error.detail["timeout"]
    limits = (
        ("the caller's timeout", timeout),
        ("its TIMEOUT_SECONDS", runtime.own_timeout),
        ("the host's default_timeout", runtime.timeout),
    )
    passed = (
        who for who, limit in limits if limit is not None and abs(max(limit, 0.0) - seconds) < _SAME_SECONDS
    )
    limit = next(passed, "what is left of the call that makes it")
    named = CallTimeout(error.name, seconds, error.waited, limit=limit)
    error.message, error.args, error.detail = named.message, named.args, named.detail


Encode = Callable[[Any, Runtime], Any]
"""Shapes a result for a face; may raise."""


def shaped(
    result: Any, validator: Validator | None, encode: Encode, runtime: Runtime, *, hurry: bool = False
) -> Any:
    """A result, or an item of one, checked and shaped for a face; ``hurry`` as in the validator."""
    if validator is not None:
        check_result(runtime.name, validator, result, hurry=hurry)
    return encode(result, runtime)


def as_given(result: Any, runtime: Runtime) -> Any:
    """The result as the function gave it; weighed only where its file sets ``MAX_RESULT_BYTES``."""
    limit = runtime.own_max_result_bytes
    if limit is not None and (size := len(encode(result, allow_nan=True))) > limit:
        raise TooLarge(f"the result of {runtime.name}", limit=limit, size=size)
    return result
