"""Arguments as people write them in a shell.

::

    a=1  name=Ada              text; becomes a number, boolean, list or object where the function asks for one
    where:='{"x": 1}'  n:=7    JSON, as it is
    text=@letter.txt           the text of a file; text=@@handle is the text "@handle"
    rows:=@rows.json           the JSON in a file
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from enginehost.cli.failures import CommandError
from enginehost.errors import InvalidRequest, TooLarge
from enginehost.json_arguments import read_value

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Given:
    """``exact`` values are meant as they are; ``texts`` may stand for numbers and the like."""

    exact: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    def fitted(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments in their order; texts become what the ``parameters`` (a JSON Schema) ask for."""
        from enginehost.validation import coerced

        found = self.exact | coerced(parameters, self.texts)
        return {name: found[name] for name in self.order}


def without_bare_json(words: Sequence[str]) -> list[str]:
    """``words`` without a ``--json`` that no JSON object follows: it says how to print, and gives nothing.

    What follows may be a list as well, which :func:`read_arguments` refuses with what to write instead.
    """
    kept: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return [*kept, *words[place:]]
        following = words[place + 1] if place + 1 < len(words) else ""
        if word != "--json" or following.lstrip()[:1] in ("{", "["):
            kept.append(word)
    return kept


def _limit() -> int:
    from enginehost.settings import load_settings

    return load_settings().http.max_body_bytes


def read_arguments(words: Sequence[str], document: str | None, limit: Callable[[], int] = _limit) -> Given:
    """What ``words`` and the JSON object ``document`` say; a word ``-`` reads such an object from stdin.

    Of a file, and of stdin, at most ``limit()`` bytes are taken. Raises :class:`CommandError` at what is
    neither, and at a name that is given twice, and ``TooLarge``.
    """
    given = Given()
    if document is not None:
        _add(given.exact, given, _object(document.encode("utf-8", "surrogateescape"), "--json"))
    for word in words:
        if word == STDIN:
            data = _bounded(sys.stdin.buffer, "standard input", limit())
            _add(given.exact, given, _object(data, "standard input"))
        else:
            _read_word(word, given, limit)
    return given


def _read_word(word: str, given: Given, limit: Callable[[], int]) -> None:
    name, equals, text = word.partition("=")
    if not equals or not name.rstrip(":"):
        raise CommandError(
            f"{word!r} is no argument",
            hint="write name=text, name:=JSON, name=@file, - for JSON from stdin, or --json '{…}'",
        )
    _unicode(name, word)
    if name.endswith(":"):
        name = name[:-1]
        data = _file(text[1:], limit()) if text.startswith("@") else text.encode("utf-8", "surrogateescape")
        _add(given.exact, given, {name: _json(data, name)})
    elif text.startswith("@") and not text.startswith("@@"):
        _add(given.texts, given, {name: _text(text[1:], limit())})
    else:
        _add(given.texts, given, {name: _unicode(text[1:] if text.startswith("@@") else text, name)})


def _add(where: dict[str, Any], given: Given, found: Mapping[str, Any]) -> None:
    for name in found:
        if name in given.exact or name in given.texts:
            raise CommandError(f"the argument {name!r} is given twice")
    where.update(found)
    given.order.extend(found)


def _object(data: bytes, where: str) -> dict[str, Any]:
    value = _json(data, where)
    if not isinstance(value, dict):
        raise CommandError(f"{where}: the arguments have to be one JSON object", hint="such as '{\"a\": 1}'")
    return value


def _json(data: bytes, where: str) -> Any:
    try:
        return read_value(data)
    except InvalidRequest as error:
        raise CommandError(f"{where}: {error.message}") from None


def _unicode(text: str, what: str) -> str:
    """``text`` as it is: bytes that are no UTF-8 come from the shell as surrogates, which no JSON has."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CommandError(f"{what!r} is not UTF-8 text") from None
    return text


def _text(path: str, limit: int) -> str:
    try:
        return _file(path, limit).decode()
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8 text") from None


def _file(path: str, limit: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return _bounded(file, path, limit)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from None


def _bounded(file: BinaryIO, what: str, limit: int) -> bytes:
    data = file.read(limit + 1)
    if len(data) > limit:
        error = TooLarge(what, limit=limit)
        error.detail["hint"] = "the setting http.max_body_bytes says how much a call may be given"
        raise error
    return data
