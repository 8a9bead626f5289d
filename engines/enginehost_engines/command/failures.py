"""What went wrong with a program, as the errors that callers and operators read."""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Callable

from enginehost.errors import EngineUnavailable, ExecutionFailed

_EXCERPT = 500
"""Characters of a program's complaints that an error shows."""

_BLANKS = re.compile(r"\s+")


def exit_text(status: int) -> str:
    """``exit status 3``, ``killed by SIGSEGV``."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def failed(program: str, status: int, complaints: str, redact: Callable[[str], str]) -> ExecutionFailed:
    """The error for a program that ended badly, with the end of what it wrote to its standard error."""
    how, said = exit_text(status), excerpt(redact(complaints))
    detail = {"type": "CommandFailed", "exit": how} | ({"status": status} if status >= 0 else {})
    return ExecutionFailed(f"{program}: {how}" + (f": {said}" if said else ""), detail=detail)


def excerpt(text: str) -> str:
    """The last characters of a text on one line."""
    line = "".join(char if char.isprintable() else " " for char in _BLANKS.sub(" ", text).strip())
    return line if len(line) <= _EXCERPT else f"…{line[-_EXCERPT + 1 :]}"


def unusable(program: str, error: OSError) -> EngineUnavailable:
    """The error for a program that cannot be started, with what to do."""
    if isinstance(error, FileNotFoundError):
        why, hint = "there is no such program", "install it, or correct COMMAND"
    elif isinstance(error, PermissionError):
        why, hint = "it may not be executed", "chmod +x makes it executable"
    elif error.errno == errno.EINVAL:
        why, hint = "it is no regular file", "name the file of a program"
    elif error.errno == errno.ENOEXEC:
        why, hint = "it is no program for this machine", "a script begins with #! and its interpreter"
    else:
        why, hint = error.strerror or type(error).__name__, "see what the machine is short of"
    reason = f"the program {program} cannot be started: {why} ({hint})"
    unavailable = EngineUnavailable(reason, state="failed", reason=reason)
    unavailable.__cause__ = error
    return unavailable
