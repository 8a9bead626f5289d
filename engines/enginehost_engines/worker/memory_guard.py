"""In a worker: a limit of memory that an allocation meets before the host has to end the process.

The kernel refuses what would be reserved beyond ``RLIMIT_DATA``: private memory that may be written, used or
not. (A limit of the whole address space would stop numerical libraries, which reserve much of it.) So that
what is only reserved counts as little as can be, the limit stands at what is reserved already and what may
still be used. It is set anew when a call begins, and when a thread has started: of its stack hardly anything
is used.

The limit is for the author's code. Ours runs without it, and so do the processes that this one starts: native
code like orjson's reserves more than it uses, and ends the process where it gets none. The host looks all the
time at what all of them use.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import RLock
from typing import Any, TypeVar

_MB = 1024 * 1024

_STACK = 8 * _MB
"""What a thread reserves for its stack, mostly."""

_SLACK = 64 * _MB + _STACK * (os.cpu_count() or 1)
"""What may be reserved beyond the limit: native libraries start a thread for each processor, unseen by us."""

_STARTS = (
    ("_thread", "start_new_thread"),
    ("_thread", "start_joinable_thread"),
    ("threading", "_start_new_thread"),
    ("threading", "_start_joinable_thread"),
    ("_posixsubprocess", "fork_exec"),
    ("subprocess", "_fork_exec"),
    ("os", "posix_spawn"),
    ("os", "posix_spawnp"),
    ("os", "system"),
)
"""What starts threads and processes, by whatever name an interpreter has it. (``fork`` tells by itself; of
threads not every interpreter tells an audit hook.)"""


class _Guard:
    """The limit of this process."""

    def __init__(self, limit: int) -> None:
        import resource

        self._limit = limit
        self._soft = self._hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        self._set_limit, self._kind = resource.setrlimit, resource.RLIMIT_DATA
        self._endless = resource.RLIM_INFINITY
        self._lifts = 0
        """How many lift it just now; it stands where this is 0."""
        self._lock = RLock()  # threads lift it too; and code that is run by a collection may, at any moment

    def lift(self) -> None:
        with self._lock:
            self._lifts += 1
            self._apply()

    def lower(self) -> None:
        with self._lock:
            self._lifts -= 1
            self._apply()

    def renew(self) -> None:
        with self._lock:
            self.end()
            with suppress(OSError, ValueError):  # the code may have opened all files there may be
                reserved, used = _reserved_and_used()
                soft = reserved + max(self._limit - used, 0) + _SLACK
                self._soft = soft if self._hard == self._endless else min(soft, self._hard)
            self._apply()

    def end(self) -> None:
        self._set(self._hard)

    def _apply(self) -> None:
        self._set(self._hard if self._lifts > 0 else self._soft)

    def _set(self, soft: int) -> None:
        with suppress(OSError, ValueError):  # the code may have lowered the hard limit itself
            self._set_limit(self._kind, (soft, self._hard))


_F = TypeVar("_F", bound=Callable[..., Any])

_guard: _Guard | None = None
_limit_mb = 0


def arm(limit_mb: int) -> None:
    """From now on let the author's code reserve no more than it may still use (0: without limit)."""
    global _guard, _limit_mb  # noqa: PLW0603 - a process has one
    _limit_mb = limit_mb
    if not limit_mb or not sys.platform.startswith("linux"):  # elsewhere the host cannot look either
        return
    _guard = _Guard(limit_mb * _MB)
    os.register_at_fork(before=_lift, after_in_parent=_lower, after_in_child=_disarm)
    for module, name in _STARTS:
        function = getattr(sys.modules.get(module), name, None)
        if function is not None:
            setattr(sys.modules[module], name, without(function))
    _guard.renew()


def without(function: _F, *, renews: bool = True) -> _F:
    """``function`` without the limit, which is set anew afterwards; itself where there is none."""
    guard = _guard
    if guard is None:
        return function

    @wraps(function)
    def free(*given: Any, **named: Any) -> Any:
        with lifted:
            result = function(*given, **named)
        if renews and _guard is guard:
            guard.renew()
        return result

    return free  # type: ignore[return-value]


def within(function: _F) -> _F:
    """The author's ``function`` with the limit, where it is :data:`lifted`; itself where there is none."""
    guard = _guard
    if guard is None:
        return function

    @wraps(function)
    def bound(*given: Any, **named: Any) -> Any:
        guard.lower()
        try:
            return function(*given, **named)
        finally:
            if _guard is guard:  # not in a forked copy
                guard.lift()

    return bound  # type: ignore[return-value]


class _Lifted:
    def __enter__(self) -> None:
        if _guard is not None:
            _guard.lift()

    def __exit__(self, *_: object) -> None:
        if _guard is not None:
            _guard.lower()


lifted = _Lifted()
"""Around our own code: it runs without the limit."""


def explained(error: BaseException, said: str) -> str:
    """What an error says, with the limit where it came of that."""
    lacks = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    if not lacks or not _limit_mb:
        return said
    return f"{said or 'no memory is left'} (PYTHON_MEMORY_MB = {_limit_mb})"


def _lift() -> None:
    lifted.__enter__()


def _lower() -> None:
    lifted.__exit__()


def _disarm() -> None:
    """A forked copy: the lock may be another thread's, which it does not have."""
    global _guard  # noqa: PLW0603
    if _guard is not None:
        _guard.end()
        _guard = None


def _reserved_and_used() -> tuple[int, int]:
    page = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
        _, resident, shared, _, _, data, _ = map(int, file.read().split())
    return data * page, (resident - shared) * page
