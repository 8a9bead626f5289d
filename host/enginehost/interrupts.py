"""Whose a ``KeyboardInterrupt`` is: that of who pressed Ctrl+C, or one that a function raised itself."""

from __future__ import annotations

import functools
import signal
import threading
from typing import Any


def is_from_a_signal(error: BaseException) -> bool:
    """Whether an error may be a signal's, which has to end what runs.

    Handlers run on the main thread only, and stand in the traceback of what they raise, except Python's own.
    A class made of ``KeyboardInterrupt`` is somebody's handler's.
    """
    if not isinstance(error, KeyboardInterrupt):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    handler = _plain(signal.getsignal(signal.SIGINT))
    if type(error) is not KeyboardInterrupt or handler is signal.default_int_handler:
        return True
    code, place = getattr(handler, "__code__", None), error.__traceback__
    while place is not None:
        if place.tb_frame.f_code is code:
            return True
        place = place.tb_next
    return False


def _plain(handler: Any) -> Any:
    """The function behind a handler: that of asyncio's is a method with its task bound."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return getattr(handler, "__func__", handler)
