"""What went wrong in a worker, as the exception its caller gets."""

from __future__ import annotations

import signal
from functools import lru_cache

from enginehost.errors import (
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    OutcomeUnknown,
    ResultInvalid,
    error_from_json,
)
from enginehost.tracebacks import RemoteTraceback
from enginehost.values import unpack


class FunctionRaised(Exception):
    """The user's code raised in a worker.

    What is raised is a subclass that has the name of the exception's own class, so that whoever
    shows ``type(error).__name__`` shows that. Its cause is the traceback.
    """


def failure(payload: bytes, name: str = "") -> Exception:
    """The exception that an ERROR frame describes, in a call of the function ``name``."""
    body = unpack(payload)
    told = body.get("error")
    if told and name and told["code"] == ResultInvalid.code:
        told = {**told, "message": f"{name}: {told['message']}"}
    error = error_from_json(told) if told else _named(body["type"])(body["message"])
    error.__cause__ = RemoteTraceback(body["traceback"])
    return error


@lru_cache(256)
def _named(name: str) -> type[FunctionRaised]:
    return type(name, (FunctionRaised,), {})


def load_failure(error: Exception, place: str = "") -> EngineHostError:
    """Why a worker could not start, from what its target raised at ``place``, a line of the author's."""
    if isinstance(error, FunctionRaised):
        return not_loadable(error, place)
    if isinstance(error, ExecutionFailed):
        text = f"the code could not be loaded: {error.message}"
    elif isinstance(error, EngineHostError):
        return error
    else:
        text = f"the worker could not be started: {type(error).__name__}: {error}"
    return _unavailable(text, error)


def not_loadable(error: BaseException, place: str) -> EngineUnavailable:
    """What stands for ``error``, which an author's code raised at ``place`` (``file:line``, or unknown)."""
    file, _, line = place.rpartition(":")
    again = f" ({file.rpartition('/')[2]}, line {line})"  # a SyntaxError says itself where it is
    said = f"{type(error).__name__}: {str(error).removesuffix(again)}"
    text = "the code could not be loaded: "
    return _unavailable(f"{text}{place}: {said}" if place else f"{text}{said}", error)


def _unavailable(text: str, cause: BaseException) -> EngineUnavailable:
    unavailable = EngineUnavailable(text, state="failed", reason=text)
    unavailable.__cause__ = cause
    return unavailable


def died(how: str, name: str, alone: bool, *, malformed: bool = False) -> EngineHostError:
    """The worker ended during a call: that call's doing where it ran ``alone``, else nobody's to say.

    Nor can it be said what came of a call whose worker was killed since it sent what is ``malformed``.
    """
    before = f"{name}: " if name else ""
    if malformed:
        return OutcomeUnknown(f"{before}its worker process was {how}", detail={"exit": how})
    if alone:
        text = f"{before}its worker process ended: {how}"
        return ExecutionFailed(text, detail={"type": "WorkerDied", "exit": how})
    text = f"{before}its worker process ended while several calls ran on it: {how}"
    return OutcomeUnknown(text, detail={"exit": how})


_LACKING = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV})
"""How native code ends that gets no memory, and does not expect that."""


def exit_reason(returncode: int, memory_mb: int = 0) -> str:
    """``exit status 3``, ``killed by SIGSEGV``; ``memory_mb`` is a limit that may have been the cause."""
    if -returncode in _LACKING and memory_mb:
        return f"{exit_reason(returncode)}, perhaps for want of memory (PYTHON_MEMORY_MB = {memory_mb})"
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"killed by {name}"
