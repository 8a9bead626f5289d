"""Writes what an importer made, and never over what somebody edited.

The first line of a written file has a digest of the lines below it: as long as the two agree, nobody has
touched the file, and another import may replace it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

from enginehost.cli.failures import CommandError
from enginehost.importing import Imported, Note

_HEAD = re.compile(
    r"# Made by `enginehost import (\S+)` from (.*?); an edited file is kept\. sha256:([0-9a-f]{64})"
)
_LONGEST_HEAD = 2000


class Status(StrEnum):
    """What became of one file."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    EDITED = "edited"
    """Somebody edited it; it is kept, and what it was made of is as it was."""
    CONFLICT = "conflict"
    """Somebody edited it, and what it was made of has changed too; it is kept."""
    FOREIGN = "foreign"
    """A file of this name was not written by this import; it is kept."""
    OVERWRITTEN = "overwritten"
    """With ``--force``: what it held is gone."""


@dataclass(frozen=True, slots=True)
class Written:
    """One file of an import and what became of it."""

    path: Path
    function: str
    origin: str
    notes: tuple[Note, ...]
    status: Status


@dataclass(slots=True)
class Outcome:
    """An import as a whole. ``gone`` are files of earlier imports of the source whose part is no more."""

    folder: Path
    written: list[Written] = field(default_factory=list)
    gone: list[Path] = field(default_factory=list)
    skipped: list[Note] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How many files have each status, in the order of :class:`Status`, without zeros."""
        found = [one.status for one in self.written]
        return {str(status): found.count(status) for status in Status if status in found}

    def to_json(self) -> dict[str, Any]:
        """The whole as an object."""
        return {
            "folder": str(self.folder),
            "files": [
                {
                    "path": str(one.path),
                    "function": one.function,
                    "origin": one.origin,
                    "status": str(one.status),
                    "notes": [note.to_json() for note in one.notes],
                }
                for one in self.written
            ],
            "counts": self.counts(),
            "skipped": [note.to_json() for note in self.skipped],
            "gone": [str(path) for path in self.gone],
            "notes": [note.to_json() for note in self.notes],
        }


def write_imported(kind: str, imported: Imported, folder: Path, *, force: bool, dry_run: bool) -> Outcome:
    """Write the files into ``folder``, each at once and whole; with ``dry_run`` only say what would be."""
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is no folder", hint="name another with --to")
    outcome = Outcome(folder, skipped=list(imported.skipped), notes=list(imported.notes))
    names: set[str] = set()
    for file in imported.files:
        names.add(file.name)
        path = folder / file.name
        text = f"{_head(kind, imported.source, file.text)}\n{file.text}"
        status = _status(path, kind, text, force=force)
        if not dry_run and status in (Status.CREATED, Status.UPDATED, Status.OVERWRITTEN):
            folder.mkdir(parents=True, exist_ok=True)
            _replace(path, text)
        outcome.written.append(Written(path, file.function, file.origin, tuple(file.notes), status))
    outcome.gone = sorted(_of_source(folder, kind, imported.source, names))
    return outcome


def _head(kind: str, source: str, text: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in source)[:1000]
    return (
        f"# Made by `enginehost import {kind}` from {shown}; an edited file is kept. sha256:{_digest(text)}"
    )


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _status(path: Path, kind: str, text: str, *, force: bool) -> Status:
    if not os.path.lexists(path):
        return Status.CREATED
    try:
        there = path.read_bytes().decode() if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        there = ""
    if there == text:
        return Status.UNCHANGED
    head, _, rest = there.replace("\r\n", "\n").partition("\n")
    match = _HEAD.fullmatch(head)
    if match is not None and match[1] == kind and match[3] == _digest(rest):
        return Status.UPDATED
    if force and not path.is_dir():
        return Status.OVERWRITTEN
    if match is None or match[1] != kind:
        return Status.FOREIGN
    return Status.EDITED if match[3] == _digest(text.partition("\n")[2]) else Status.CONFLICT


def _replace(path: Path, text: str) -> None:
    """Write ``path`` so that whoever looks meanwhile, a running host too, sees the old or the new file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(text, encoding="utf-8", newline="")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _of_source(folder: Path, kind: str, source: str, names: set[str]) -> Iterator[Path]:
    """The files in ``folder`` that an import of ``source`` wrote once, and not this time."""
    if not folder.is_dir():
        return
    for path in folder.glob("*.smss"):
        if path.name in names or not path.is_file():
            continue
        with path.open("rb") as file:
            line = file.readline(_LONGEST_HEAD).decode("utf-8", "replace").rstrip("\r\n")
        match = _HEAD.fullmatch(line)
        if match is not None and match[1] == kind and match[2] == source:
            yield path
