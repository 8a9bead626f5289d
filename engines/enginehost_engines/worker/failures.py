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
from enginehost.values import unpack


class FunctionRaised(Exception):
    """The user's code raised in a worker.

    What is raised is a subclass that has the name of the exception's own class, so that whoever
    shows ``type(error).__name__`` shows that. Its cause is a :class:`WorkerTraceback`.
    """


class WorkerTraceback(Exception):
    """The traceback of a worker as text: for the log, never for callers."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


def failure(payload: bytes, name: str = "") -> Exception:
    """The exception that an ERROR frame describes, in a call of the function ``name``."""
    body = unpack(payload)
    told = body.get("error")
    if told and name and told["code"] == ResultInvalid.code:
        told = {**told, "message": f"{name}: {told['message']}"}
    error = error_from_json(told) if told else _named(body["type"])(body["message"])
    error.__cause__ = WorkerTraceback(body["traceback"])
    return error


@lru_cache(256)
def _named(name: str) -> type[FunctionRaised]:
    return type(name, (FunctionRaised,), {})


def load_failure(error: Exception) -> EngineHostError:
    """Why a worker could not start, from what its target raised."""
    if isinstance(error, FunctionRaised):
        text = f"the code could not be loaded: {type(error).__name__}: {error}"
    elif isinstance(error, ExecutionFailed):
        text = f"the code could not be loaded: {error.message}"
    elif isinstance(error, EngineHostError):
        return error
    else:
        text = f"the worker could not be started: {type(error).__name__}: {error}"
    unavailable = EngineUnavailable(text, state="failed", reason=text)
    unavailable.__cause__ = error
    return unavailable


def told_by_worker(error: BaseException) -> BaseException:
    """What of an error's causes the worker told; the error itself where the worker told nothing."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, WorkerTraceback):
            return cause
        cause = cause.__cause__
    return error


def died(returncode: int, name: str, alone: bool) -> EngineHostError:
    """The worker ended during a call: that call's doing where it ran ``alone``, else nobody's to say."""
    how = exit_reason(returncode)
    before = f"{name}: " if name else ""
    if alone:
        text = f"{before}its worker process ended: {how}"
        return ExecutionFailed(text, detail={"type": "WorkerDied", "exit": how})
    text = f"{before}its worker process ended while several calls ran on it: {how}"
    return OutcomeUnknown(text, detail={"exit": how})


def exit_reason(returncode: int) -> str:
    """``exit status 3``, ``killed by SIGSEGV``."""
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"killed by {name}"
