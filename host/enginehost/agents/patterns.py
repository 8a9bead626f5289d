"""Regular expressions of files on texts of callers and models: however one is written, it holds up no host.

Some patterns take ages on some texts (``(a+)+$``). So each search has a few milliseconds on the event loop,
then a second on one of a few threads, and is given up.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import regex

from enginehost.errors import ExecutionFailed

_AT_ONCE = 0.005
"""Seconds on the event loop."""
_IN_ALL = 1.0
"""Seconds on a thread, which does not hold the interpreter's lock meanwhile."""
_THREADS = 2

Match = regex.Match[str]


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="enginehost-patterns")


class Patterns:
    """Some regular expressions, of which any may be found. ``what`` names them in errors.

    Their syntax is that of :mod:`re`. Raises ``ValueError`` for one that is wrong.
    """

    def __init__(self, patterns: Sequence[str], what: str) -> None:
        self._what = what
        try:
            for one in patterns:
                re.compile(one)
            re.compile("|".join(f"(?:{one})" for one in patterns))
            # each counts its groups from 1, so that \1 is its own
            self._compiled = regex.compile(f"(?|{'|'.join(f'(?:{one})' for one in patterns)})")
        except (re.error, regex.error) as error:
            raise ValueError(f"a pattern is wrong: {error} (flags are written (?i:…))") from None
        self.groups = self._compiled.groups

    def search(self) -> Search:
        """What looks through the pieces of one text after each other."""
        return Search(self._compiled, self._what)


class Search:
    """Looks for patterns in pieces of a text."""

    __slots__ = ("_compiled", "_slow", "_what")

    def __init__(self, compiled: regex.Pattern[str], what: str) -> None:
        self._compiled, self._what = compiled, what
        self._slow = False

    async def all_in(self, text: str, start: int = 0) -> list[Match]:
        """All matches from ``start`` on. Raises ``ExecutionFailed`` where that takes too long."""
        if not self._slow:
            try:
                return list(self._compiled.finditer(text, start, timeout=_AT_ONCE))
            except TimeoutError:
                self._slow = True  # the rest of such a text does not hold the loop again and again
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(_threads(), self._patiently, text, start)
        except TimeoutError:
            text = f"{self._what} takes too long on this text: it may hold repeats within repeats"
            raise ExecutionFailed(text, detail={"reason": "pattern"}) from None

    def _patiently(self, text: str, start: int) -> list[Match]:
        return list(self._compiled.finditer(text, start, timeout=_IN_ALL, concurrent=True))
