"""Arguments as people write them in a shell.

::

    a=1  name=Ada              text; becomes a number, boolean, list or object where the function asks for one
    where:='{"x": 1}'  n:=7    JSON, as it is
    text=@letter.txt           the text of a file; text=@@handle is the text "@handle"
    rows:=@rows.json           the JSON in a file
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enginehost.cli.failures import CommandError
from enginehost.errors import InvalidRequest
from enginehost.values import decode

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Given:
    """``exact`` values are meant as they are; ``texts`` may stand for numbers and the like."""

    exact: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def fitted(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments, the texts as the function's ``parameters`` (a JSON Schema) want them."""
        from enginehost.validation import coerced

        return self.exact | coerced(parameters, self.texts)


def read_arguments(words: Sequence[str], document: str | None) -> Given:
    """What ``words`` and the JSON object ``document`` say; a word ``-`` reads such an object from stdin.

    Raises :class:`CommandError` at what is neither, and at a name that is given twice.
    """
    given = Given()
    if document is not None:
        given.exact.update(_object(document.encode("utf-8", "surrogateescape"), "--json"))
    for word in words:
        if word == STDIN:
            _add(given.exact, given, _object(sys.stdin.buffer.read(), "standard input"))
        else:
            _read_word(word, given)
    return given


def _read_word(word: str, given: Given) -> None:
    name, equals, text = word.partition("=")
    if not equals or not name.rstrip(":"):
        raise CommandError(
            f"{word!r} is no argument",
            hint="write name=text, name:=JSON, name=@file, or - for JSON from stdin",
        )
    if name.endswith(":"):
        name = name[:-1]
        data = _file(text[1:]) if text.startswith("@") else text.encode("utf-8", "surrogateescape")
        _add(given.exact, given, {name: _json(data, name)})
    elif text.startswith("@") and not text.startswith("@@"):
        _add(given.texts, given, {name: _text(text[1:])})
    else:
        _add(given.texts, given, {name: text[1:] if text.startswith("@@") else text})


def _add(where: dict[str, Any], given: Given, found: Mapping[str, Any]) -> None:
    for name in found:
        if name in given.exact or name in given.texts:
            raise CommandError(f"the argument {name!r} is given twice")
    where.update(found)


def _object(data: bytes, where: str) -> dict[str, Any]:
    value = _json(data, where)
    if not isinstance(value, dict):
        raise CommandError(f"{where}: the arguments have to be one JSON object", hint="such as '{\"a\": 1}'")
    return value


def _json(data: bytes, where: str) -> Any:
    try:
        return decode(data)
    except InvalidRequest as error:
        raise CommandError(f"{where}: {error.message}") from None


def _text(path: str) -> str:
    try:
        return _file(path).decode()
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8 text") from None


def _file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from None
