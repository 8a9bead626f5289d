"""Mistakes in the words of a command, told in the form that every error has."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer

from enginehost.cli.failures import CommandError

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for all of them; it has no public name."""

_HELP = "NoArgsIsHelpError"
"""The one among them that is none: typer's way to show the help where nothing is asked for."""


@contextmanager
def told_as_errors() -> Generator[None]:
    """Raise :class:`CommandError` for what typer finds wrong with the words of a command."""
    try:
        yield
    except _USAGE_ERROR as error:
        if type(error).__name__ == _HELP:
            raise
        raise _command_error(error) from error


def nobody_reads() -> int:
    """The exit code where the reader of our output has gone (``| head``): that of SIGPIPE's shell convention.

    What is still to be written is thrown away, so that nothing complains at the very end.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return 128 + signal.SIGPIPE


def _command_error(error: Any) -> CommandError:
    context = getattr(error, "ctx", None)
    help_hint = f"`{context.command_path} --help` shows how it is written" if context else ""
    if possible := getattr(error, "possibilities", None):
        return CommandError(_lowered(error.message), hint=f"did you mean {', '.join(sorted(possible))}?")
    message = _of_value(error) if error.message and isinstance(error, typer.BadParameter) else ""
    return CommandError(message or _lowered(error.format_message()), hint=help_hint)


def _of_value(error: typer.BadParameter) -> str:
    """What is wrong with the value of an option or argument."""
    names = error.format_message().removesuffix(f": {error.message}")
    names = names.removeprefix("Invalid value for ").replace("'", "")
    fault = _fault(error.__cause__)
    if fault is None or fault["type"] == "value_error":
        return f"{names}: {_lowered(error.message.removeprefix('Value error, '))}"
    from enginehost.value_faults import fault_text

    return f"{names} {fault_text(fault)}, and is {fault['input']!r}"


def _fault(cause: BaseException | None) -> Any:
    """What pydantic says, which checks the values where typer lets it."""
    errors = getattr(cause, "errors", None)
    return errors()[0] if errors is not None else None


def _lowered(text: str) -> str:
    text = text.rstrip(".")
    return text[:1].lower() + text[1:]
