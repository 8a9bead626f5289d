"""Something callable: its signature, what it may use, and how it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from enginehost.call import Call
from enginehost.signature import FunctionSignature


class RunMode(StrEnum):
    """How the host runs a function's ``run``."""

    ASYNC = "async"
    """``async def``: on the event loop."""
    SYNC = "sync"
    """``def``: on a thread."""
    ASYNC_STREAM = "async_stream"
    """An async generator function: on the event loop, item by item."""
    SYNC_STREAM = "sync_stream"
    """A generator function: on a thread, item by item."""

    @property
    def streams(self) -> bool:
        """Whether the function answers with several items."""
        return self in (RunMode.ASYNC_STREAM, RunMode.SYNC_STREAM)


class Approval(StrEnum):
    """When a person has to say yes before the call of an agent, or of a client of MCP, runs (``APPROVAL``).

    For other clients it is a statement: the host shows it and asks nobody.
    """

    NEVER = "never"
    ALWAYS = "always"
    DESTRUCTIVE = "destructive"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one function may use. ``None`` is *no limit of its own*.

    ``timeout`` seconds from arrival to answer; ``max_concurrency`` calls at once; ``queue_limit``
    calls that may wait for one of them; ``rate`` calls per second on average with bursts of
    ``burst``; ``max_result_bytes`` of the result as JSON.
    """

    timeout: float | None = None
    max_concurrency: int | None = None
    queue_limit: int | None = None
    rate: float | None = None
    burst: int = 1
    max_result_bytes: int | None = None


Run = Callable[[dict[str, Any], Call], Any]
"""Runs a function on validated arguments; gives the result, an awaitable or a (async) generator."""


@dataclass(frozen=True, slots=True)
class Function:
    """Something callable: a signature, limits, and a way to run it.

    ``bind`` are arguments the host fills in (``FUNCTION_BIND``): constants, or ``$caller.subject``
    and its like; they stand in no spec. ``coerce_text`` lets every face send ``"7"`` where a number is
    asked (SEMOSS-typed files, whose callers send text). ``service`` is the service under which the databus
    offers it; empty: the host's own.
    """

    signature: FunctionSignature
    run: Run
    mode: RunMode = RunMode.ASYNC
    limits: Limits = field(default_factory=Limits)
    bind: Mapping[str, Any] = field(default_factory=dict, repr=False)
    approval: Approval = Approval.NEVER
    coerce_text: bool = False
    service: str = ""


def run_mode(run: Callable[..., Any]) -> RunMode:
    """The mode that fits how ``run`` was defined."""
    if inspect.isasyncgenfunction(run):
        return RunMode.ASYNC_STREAM
    if inspect.isgeneratorfunction(run):
        return RunMode.SYNC_STREAM
    if inspect.iscoroutinefunction(run):
        return RunMode.ASYNC
    return RunMode.SYNC
