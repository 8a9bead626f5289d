"""What ``run`` tells when the host is ready: where it is, what it has, what is wrong."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from enginehost import __version__
from enginehost.cli.output import counted, emphasised, escaped, printable
from enginehost.diagnostics import Diagnostic, Severity

if TYPE_CHECKING:
    from enginehost.host import Host
    from enginehost.serve import HttpServer

_MOST_PROBLEMS = 8


def page(host: Host, server: HttpServer | None, seconds: float, stream: TextIO) -> str:
    """The start-up page for a person."""
    return "\n".join(_lines(host, server, seconds, stream))


def _lines(host: Host, server: HttpServer | None, seconds: float, stream: TextIO) -> Iterator[str]:
    yield ""
    yield f"  {emphasised(f'enginehost {__version__}', stream, 'bold')}  ready in {seconds:.2f} s"
    yield ""
    yield _line("folder", f"{escaped(str(host.folder))}, {counted(len(host.catalog), 'function')}")
    if server is None:
        yield _line("http", "off")
    else:
        yield _line("http", emphasised(server.url, stream, "cyan"))
        if server.is_open:
            yield _line("", f"other machines reach it too: it listens on {server.address}")
        if host.settings.http.docs:
            yield _line("docs", emphasised(f"{server.url}/docs", stream, "cyan"))
    yield _line("databus", _databus(host))
    if host.settings.authenticates:
        yield _line("access", "with a token; the policy says who may what")
    first = next(iter(host.catalog), None)
    if first is not None and server is not None:
        command = shlex.join(["enginehost", "describe", first.name, "--url", server.url])
        yield _line("try", escaped(command))
    yield from _problems(host.problems(), stream)
    yield ""
    yield "  Ctrl+C stops it."
    yield ""


def _line(title: str, text: str) -> str:
    return f"  {title:<9}{text}"


def _databus(host: Host) -> str:
    if host.bus is None:
        return "off"
    config = host.bus.config
    return f"domain {config.domain} on {config.interface}, as service {config.service}"


def _problems(problems: list[Diagnostic], stream: TextIO) -> Iterator[str]:
    if not problems:
        return
    yield ""
    for problem in sorted(problems, key=lambda one: one.severity is not Severity.ERROR)[:_MOST_PROBLEMS]:
        colour = "red" if problem.severity is Severity.ERROR else "yellow"
        where = f"{problem.path}:{problem.line}: " if problem.line else problem.path and f"{problem.path}: "
        word = emphasised(f"{problem.severity!s:<8}", stream, colour)
        yield f"  {word} {escaped(where)}{printable(problem.message)}"
        if problem.hint:
            yield f"           {printable(problem.hint)}"
    more = len(problems) - _MOST_PROBLEMS
    yield (
        f"  and {more} more: `enginehost doctor`" if more > 0 else "  `enginehost doctor` has the whole page"
    )
