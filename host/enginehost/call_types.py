"""Slips in the program that calls: they are its own, not the function's, and no call is made of them."""

from __future__ import annotations

from numbers import Real
from typing import Any

from enginehost.caller import Caller


def check_types(name: Any, caller: Any = None, timeout: Any = None) -> None:
    """Raise ``TypeError`` for what cannot be the name of a function, its caller or its seconds."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a function has to be text, not {type(name).__name__}")
    if caller is not None and not isinstance(caller, Caller):
        raise TypeError(f"caller has to be a Caller, not {type(caller).__name__}")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, Real)):
        raise TypeError(f"timeout has to be a number of seconds, not {type(timeout).__name__}")
