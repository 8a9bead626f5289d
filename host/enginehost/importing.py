r"""What importers make of a foreign document: smss files, and what could not be expressed in them.

An importer is a function that an entry point of group ``enginehost.importers`` names. It takes the source and
options of its own, as Typer reads them (``Annotated[str, typer.Option(help=…)]``), and answers with
:class:`Imported`. ``enginehost import NAME`` calls it and writes the files, with the same rules for all
importers: a file that somebody edited is never overwritten unasked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from json import JSONEncoder
from typing import Any, NamedTuple, cast

WIDTH = 100
"""Characters after which a line of a written file is broken, where it can be."""

_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
_TO_ESCAPE = re.compile(r"[\\\n\r\t\f]")
_SUBSTITUTED = re.compile(r"\$(?=\{)|@(?=(?:ENGINE|BaseFolder)@)")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_QUOTE = JSONEncoder(ensure_ascii=False).encode
_DEFINITIONS = '"$defs": '
_BREAK = re.compile(r"(?<=[^ ]) (?=[^ ])")


Shared = dict[tuple[int, str, str], tuple[Any, list[str]]]
"""What was written of definitions, by their identity and place; empty at first."""


class Note(NamedTuple):
    """Something that an import could not express, or leaves for people to decide.

    ``pointer`` is the RFC 6901 JSON Pointer of the place in ``document``; ``line`` counts from 1, 0 is
    unknown.
    """

    message: str
    pointer: str = ""
    line: int = 0
    document: str = ""

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """One smss file. ``name`` is its file name, ``origin`` what it was made of, for people."""

    name: str
    text: str
    function: str
    origin: str
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """All that came of a source.

    ``files`` may be made one by one as they are asked for. ``source`` names the source in the files that are
    written: no path of one machine, no credentials. ``folder`` is a good name for a folder of theirs.
    ``skipped`` are the parts that became no file, ``notes`` are about the whole.
    """

    source: str
    folder: str
    files: Iterable[ImportedFile]
    skipped: Sequence[Note] = ()
    notes: Sequence[Note] = field(default=())


def literal(text: str) -> str:
    """``text`` for a value in which nothing may be filled in: ``${`` and ``@ENGINE@`` stay what they are."""
    return _SUBSTITUTED.sub(lambda found: "$$" if found[0] == "$" else "${_:-@}", text)


def key_line(key: str, value: Any, shared: Shared | None = None) -> str:
    """One key with its value over as many lines as people want to read.

    A text is written as it is, placeholders in it work; anything else becomes JSON with :func:`literal`
    texts. ``shared`` keeps what was written of definitions (``$defs``) that several files have.
    """
    if isinstance(value, str):
        return "\\\n".join(_wrapped(f"{key} = {_escaped(value)}", "    "))
    lines = _json_lines(value, "", shared=shared)
    lines[0] = f"{key} = {lines[0]}"
    return "\\\n".join(lines)


def comment(text: str) -> str:
    """``text`` as lines that begin with ``#``."""
    lines: list[str] = []
    for line in _UNPRINTABLE.sub(" ", text.replace("\n", "\x00")).split("\x00") if text else [""]:
        lines += _comment_lines(line)
    return "\n".join(lines)


def _comment_lines(line: str) -> Iterator[str]:
    current = "#"
    for word in line.split(" "):
        if len(current) + len(word) > WIDTH and current != "#":
            yield current.rstrip()
            current = "#  "
        current += f" {word}"
    yield current.rstrip()


def _escaped(text: str) -> str:
    text = _TO_ESCAPE.sub(lambda found: _ESCAPED[found[0]], text)
    text = _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return f"\\{text}" if text[:1] in (" ", "=", ":") else text


def _wrapped(line: str, indent: str) -> Iterator[str]:
    """``line`` broken behind single blanks, as property files continue lines."""
    start = 0
    while len(line) - start > WIDTH:
        least = start + WIDTH // 2
        ends = [found.end() for found in _BREAK.finditer(line, least, start + WIDTH)]
        found = None if ends else _BREAK.search(line, least)
        if not ends and found is None:
            break
        end = ends[-1] if found is None else found.end()
        yield (indent if start else "") + line[start:end]
        start = end
    yield (indent if start else "") + line[start:]


def _json_lines(value: Any, indent: str, head: str = "", *, shared: Shared | None = None) -> list[str]:
    """The lines of ``value`` as JSON, all but the last with a blank at the end, behind which lines break."""
    if not isinstance(value, list | dict) or not value:
        flat = f"{indent}{head}{_flat(literal(value) if isinstance(value, str) else value)}"
        return [flat] if len(flat) <= WIDTH else list(_wrapped(flat, f"{indent}  "))
    inner = f"{indent}  "
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    lines: list[str] = []
    is_short, length = True, len(indent) + len(head) + 10
    for name, item in _members(cast("list[Any] | dict[str, Any]", value)):
        part = _shared_lines(item, inner, name, shared) if head == _DEFINITIONS and shared is not None else (
            _json_lines(item, inner, name, shared=shared)
        )  # fmt: skip
        if is_short:
            length += len(part[0]) - len(inner) + 2
            is_short = len(part) == 1 and length <= WIDTH
        lines += part
        lines[-1] += ", "
    lines[-1] = lines[-1].removesuffix(", ")
    if is_short:
        flat = "".join([line[len(inner) :] for line in lines])
        return [f"{indent}{head}{opening}{flat}{closing}"]
    lines[-1] += " "
    return [f"{indent}{head}{opening} ", *lines, f"{indent}{closing}"]


def _shared_lines(value: Any, indent: str, head: str, shared: Shared) -> list[str]:
    """The lines of a definition, which is written once; a copy, since the caller adds to it."""
    key = id(value), indent, head
    if key not in shared:
        shared[key] = value, _json_lines(value, indent, head)
    return shared[key][1].copy()


def _members(value: list[Any] | dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        return ((f"{_flat(key)}: ", item) for key, item in value.items())
    return (("", item) for item in value)


def _flat(value: Any) -> str:
    text = _QUOTE(value)
    if "\\" not in text and text.isprintable():
        return text
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).replace("\\", "\\\\")
