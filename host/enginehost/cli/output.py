"""What the commands print: JSON, tables and plain lines; colour and frames on a terminal only."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from enginehost.cli.failures import REPORTING

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_HIGHLIGHTED_BYTES = 100_000
"""Longer JSON is printed as it is: colouring it takes seconds."""
_PATIENCE = 1.0
"""Seconds after which a person is told what is being waited for."""


def on_terminal(stream: TextIO) -> bool:
    """Whether a person looks at ``stream``."""
    return stream.isatty()


def coloured(stream: TextIO) -> bool:
    """Whether colour is welcome on ``stream`` (https://no-color.org)."""
    return on_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def emphasised(text: str, stream: TextIO, style: str) -> str:
    """``text`` with ``style`` (a colour, ``bold``, ``dim``) where colour is welcome."""
    return f"\033[{_CODES[style]}m{text}\033[0m" if coloured(stream) else text


def printable(text: str) -> str:
    """``text`` without what would steer a terminal; its further lines are marked.

    So none of them looks like a line of ours, or like a command to a CI system (``::error::``).
    """
    return "\n  | ".join(map(escaped, text.split("\n")))


def escaped(text: str) -> str:
    """``text`` as it is, but on one line and without what would steer a terminal: a name, a path."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def laid_out(text: str) -> str:
    """``text`` whose lines are ours, without what would steer a terminal."""
    return "\n".join(map(escaped, text.split("\n")))


def one_line(text: str) -> str:
    """``text`` with single spaces on one line, printable."""
    return escaped(" ".join(text.split()))


def from_here(path: str) -> str:
    """The path from the current folder, where it lies below that: what people and editors understand."""
    here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118 - as text, with the separator at its end
    return path.removeprefix(here)


def counted(number: int, word: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def say(text: str = "") -> None:
    """A line on standard output."""
    sys.stdout.write(f"{text}\n")


def note(text: str) -> None:
    """A line on standard error: beside the output, never part of it."""
    sys.stderr.write(f"{text}\n")


def print_json(value: Any) -> None:
    """``value`` as JSON: indented on a terminal, else compact on one line."""
    from enginehost.values import write

    print_encoded(write(value))


def print_encoded(data: bytes, *, raw: bool = False, pretty: bool = True) -> None:
    """JSON text as a person or a program reads it.

    ``raw`` prints a plain string without quotes; ``pretty`` off keeps one value on one line.
    """
    if raw and data.startswith(b'"'):
        _write(json.loads(data))
    elif pretty and on_terminal(sys.stdout):
        _print_pretty(data)
    else:
        _write(data.decode())


def _print_pretty(data: bytes) -> None:
    try:
        text = json.dumps(json.loads(data), indent=2, ensure_ascii=False)
    except ValueError:  # a number longer than Python reads
        text = data.decode()
    text = laid_out(text)
    if coloured(sys.stdout) and len(data) < _HIGHLIGHTED_BYTES:
        from rich.console import Console
        from rich.highlighter import JSONHighlighter

        Console(soft_wrap=True).print(JSONHighlighter()(text))
    else:
        _write(text)


def _write(text: str) -> None:
    """Write UTF-8 whatever the locale says: JSON is UTF-8 (RFC 8259)."""
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: framed and fitted on a terminal, else columns of full width for other programs."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    if on_terminal(sys.stdout):
        _print_framed(heads, rows)
        return
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        say("  ".join(cells).rstrip())


def _print_framed(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


@contextmanager
def waiting(what: str) -> Generator[Callable[[], None]]:
    """Tell a person ``what`` is being waited for, once it takes over a second.

    What is yielded ends that early. Where a program reads along (an output is no terminal, or is to be
    JSON), nothing is told.
    """
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, done), daemon=True)

    def over() -> None:
        done.set()
        if teller.is_alive():
            teller.join()

    if on_terminal(sys.stdout) and on_terminal(sys.stderr) and not REPORTING.json:
        teller.start()
    try:
        yield over
    finally:
        over()


def _tell(what: str, done: threading.Event) -> None:
    if done.wait(_PATIENCE):
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(f"{one_line(what)} …")):
        done.wait()
