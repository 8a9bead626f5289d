"""What the command line learns of secrets while a command runs, and keeps out of what it says.

What a function *returns* is not touched (see docs/security.md).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from enginehost.diagnostics import Diagnostic

_redactors: list[Callable[[str], str]] = []
"""Those of the hosts and loaders of this process: each learns a secret when it is resolved."""


def learn_from(redact: Callable[[str], str]) -> None:
    """Keep out of what is said from now on whatever ``redact`` knows, also what it comes to know."""
    _redactors.append(redact)


def keep_secret(*texts: str | None) -> None:
    """Keep these texts out of what is said from now on."""
    from enginehost.redaction import Redactor

    redactor = Redactor()
    for text in texts:
        redactor.add(text or "")
    learn_from(redactor)


def masked(text: str) -> str:
    """``text`` without the secrets that are known by now, and without passwords of URLs."""
    if "://" in text:
        from enginehost.redaction import without_url_passwords

        text = without_url_passwords(text)
    for redact in _redactors:
        text = redact(text)
    return text


def masked_json(value: Any) -> Any:
    """A JSON value whose texts hold no secret; numbers stay, so that it is read as it was meant."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {masked(name): masked_json(one) for name, one in members.items()}
    if isinstance(value, list | tuple):
        return [masked_json(one) for one in cast("list[Any]", value)]
    return value


def masked_findings(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The findings without secrets."""
    return [replace(one, message=masked(one.message), hint=masked(one.hint)) for one in found]


class _Masked:
    """A stream on which no secret is written, whoever writes."""

    def __init__(self, stream: TextIO) -> None:
        self.plain = stream

    def write(self, text: str) -> int:
        """Write the text without secrets."""
        self.plain.write(masked(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)


@contextmanager
def masked_errors() -> Generator[None]:
    """Standard error without secrets: errors, tracebacks, the log of ``--debug``, what functions print."""
    _redactors.clear()
    plain = sys.stderr
    sys.stderr = cast("TextIO", _Masked(plain))
    try:
        yield
    finally:
        sys.stderr = plain


def plain_errors() -> TextIO:
    """Standard error itself, for a log that masks what it writes."""
    return getattr(sys.stderr, "plain", sys.stderr)
