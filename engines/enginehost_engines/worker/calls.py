"""The call that code in a worker serves: what it tells its caller, and what it asks.

The worker's half stands in :func:`enter`. ``enginehost.engine`` is loaded only for code that imports it:
other code may run on Pythons that are too old for it, and starts sooner.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginehost.engine import Call

ASKED = "asked"
"""Where, in what a worker is told of a call, stand the kinds of questions and the answers."""

_CONTRACT = "enginehost.engine"


def _nobody_listens(told: dict[str, Any]) -> None:
    """The default of :data:`tell`."""


tell: Callable[[dict[str, Any]], None] = _nobody_listens
"""Tells the caller of the current call something; the worker sets it."""


def with_asked(about: Any, call: Call | None) -> Any:
    """What a worker is told of ``call``, beside what its engine says (``about``)."""
    if call is None or not (call.asks or call.answers):
        return about
    return {**(about or {}), ASKED: [sorted(call.asks), dict(call.answers or {})]}


def enter(function: str, asked: Any, text: bytes = b"") -> None:
    """Let ``current_call()`` give the call of ``function``. ``text``: the code that may import it later."""
    module: Any = sys.modules.get(_CONTRACT)
    if module is None:
        if b"enginehost" not in text:
            return
        from enginehost import engine as module
    kinds, answers = asked or ((), None)
    module.CURRENT.set(module.Call(function, asks=frozenset(kinds), answers=answers, tell=_told))


def filled(call: Call, about: Mapping[str, Any]) -> Call:
    """``call`` of an engine class, with what :func:`with_asked` added."""
    kinds, call.answers = about.get(ASKED) or ((), None)
    call.asks, call.tell = frozenset(kinds), _told
    return call


def _told(told: dict[str, Any]) -> None:
    tell(told)
