"""Tracebacks as whoever wrote the code wants them: their own frames, without those of the host around them.

For the log; no text made here is for a caller, but for that of :func:`place_of`. Needs nothing outside the
standard library, so that it also loads in worker processes.
"""

from __future__ import annotations

import builtins
import os
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NamedTuple

_HOST = frozenset({"enginehost", "enginehost_engines"})
"""The packages whose frames tell an author nothing."""

_STANDARD = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - pathlib costs a worker start-up time
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class RemoteTraceback(Exception):
    """A traceback of another process, as text.

    As the ``__cause__`` of an exception that came from there it says all that is known of it.
    """

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


def author_traceback(error: BaseException) -> str:
    """The traceback of ``error`` and of what led to it, as far as it leads through an author's code.

    Empty where it does not.
    """
    told = _remote(error)
    if told is not None:
        return str(told.args[0])
    inner = _inner(error)
    if inner is None:
        return ""
    formatted = traceback.TracebackException.from_exception(inner)
    for one, raised in _pairs(formatted, inner):
        frames = _frames(raised)
        first = next((place for place, frame in enumerate(frames) if _is_authors(frame)), len(frames))
        if len(frames) == len(one.stack):
            lines = zip(list(one.stack)[first:], frames[first:])  # noqa: B905 - Python 3.9 has no strict
            kept = [line for line, frame in lines if not _is_hosts(frame)]
            one.stack = traceback.StackSummary.from_list(kept)
    return "".join(formatted.format())


def cause_traceback(error: BaseException) -> str:
    """:func:`author_traceback`; the whole one where no author's code is in it: the host may be at fault."""
    return author_traceback(error) or "".join(
        traceback.format_exception(type(error), error, error.__traceback__)
    )


class Place(NamedTuple):
    """Where code went wrong; ``file`` is relative to one of the author's folders, else a bare name."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def place_of(error: BaseException, folders: Sequence[str] = ()) -> Place | None:
    """The last line of the author's own code, that is of files below ``folders``, that led to ``error``.

    Else the last line of whatever is neither the host's nor the standard library's; of a syntax error the
    line that has it.
    """
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Place(_shown(error.filename, folders), error.lineno)
    steps = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_authors(frame)
    ]
    own = [step for step in steps if step[0].startswith(tuple(folder + os.sep for folder in folders))]
    for file, line in (own or steps)[-1:]:
        return Place(_shown(file, folders), line)
    return None


def _shown(file: str, folders: Sequence[str]) -> str:
    for folder in folders:
        if file.startswith(folder + os.sep):
            return file.removeprefix(folder + os.sep).replace(os.sep, "/")
    return os.path.basename(file)  # noqa: PTH119 - see above


def _remote(error: BaseException) -> RemoteTraceback | None:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, RemoteTraceback):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__
    return None


def _inner(error: BaseException) -> BaseException | None:
    """``error``, or the first of its causes in which an author's code had a part: the host wraps those."""
    seen: set[int] = set()
    inner: BaseException | None = error
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        if any(_is_authors(frame) for one in (inner, *_grouped(inner)) for frame in _frames(one)):
            return inner
        inner = inner.__cause__ if inner.__cause__ is not None else inner.__context__
    return None


def _grouped(error: BaseException) -> Sequence[BaseException]:
    """The exceptions of a group, which Python has from 3.11 on: workers may be older."""
    group = getattr(builtins, "BaseExceptionGroup", ())
    return getattr(error, "exceptions") if isinstance(error, group) else ()  # noqa: B009 - not on all


def _frames(error: BaseException) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def _pairs(
    formatted: traceback.TracebackException, error: BaseException
) -> Iterator[tuple[traceback.TracebackException, BaseException]]:
    """Each exception that is shown, with itself."""
    pending = [(formatted, error)]
    while pending:
        shown, raised = pending.pop()
        yield shown, raised
        pending += zip(getattr(shown, "exceptions", None) or (), _grouped(raised))  # noqa: B905 - Python 3.9 has no strict
        for deeper, cause in ((shown.__cause__, raised.__cause__), (shown.__context__, raised.__context__)):
            if deeper is not None and cause is not None:
                pending.append((deeper, cause))


def _is_hosts(frame: FrameType) -> bool:
    """Whether it is the host's, or Python's own machinery of imports."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package in _HOST or frame.f_code.co_filename.startswith("<frozen ")


def _is_authors(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    standard = file.startswith(_STANDARD) and not any(part in file for part in _INSTALLED)
    return not standard and not _is_hosts(frame)
