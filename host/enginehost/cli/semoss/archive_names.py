"""Names of entries in an archive: which of them may become a file below a folder.

Nothing here touches a disk. A name that leads, or could lead, anywhere else makes the whole archive
suspicious, so it is refused and not mended.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from zipfile import ZipInfo

from enginehost.cli.failures import CommandError

MOST_DEPTH = 32
"""Folders in one another."""

_MOST_BYTES = 255
"""Of one part of a name: more than that no file system here takes."""

_UTF_8_FLAG = 0x800
"""Bit 11 of the general purpose flags: the name is UTF-8 (APPNOTE.TXT 4.4.4), else it is cp437."""

_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Parts = tuple[str, ...]


class BadArchive(CommandError):
    """An archive that is damaged, or that no SEMOSS wrote: nothing of it is taken."""


def spelled(info: ZipInfo) -> str:
    """The entry's name as its author meant it.

    Old programs write UTF-8 without saying so; what is valid UTF-8 is hardly ever anything else.
    """
    name = info.orig_filename
    if info.flag_bits & _UTF_8_FLAG or name.isascii():
        return name
    try:
        return name.encode("cp437").decode("utf-8")
    except UnicodeError:
        return name


def parts_of(name: str) -> Parts:
    """The parts of the path; empty for the top itself. Raises :class:`BadArchive`.

    A backslash separates too: archives made on Windows have them.
    """
    if not name or _CONTROL.search(name):
        raise _refused(name, "holds characters that no file name has" if name else "is empty")
    path = name.replace("\\", "/")
    if path.startswith("/"):
        raise _refused(name, "is an absolute path")
    if _DRIVE.match(path):
        raise _refused(name, "begins with a drive letter")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise _refused(name, "leads out of the archive's folder")
    if len(parts) > MOST_DEPTH:
        raise _refused(name, f"lies more than {MOST_DEPTH} folders deep")
    if any(len(part.encode()) > _MOST_BYTES for part in parts):
        raise _refused(name, f"has a part of more than {_MOST_BYTES} bytes")
    return parts


class Names:
    """The names of an archive so far; no two of them may meet in one file.

    Neither may names that only some file systems keep apart: those that differ in case, or in how a
    character is composed.
    """

    def __init__(self) -> None:
        self._files: set[Parts] = set()
        self._folders: set[Parts] = set()
        self._spellings: dict[Parts, Parts] = {}

    def add(self, parts: Parts, *, folder: bool) -> None:
        """Take a name in. Raises :class:`BadArchive` where it meets another."""
        for end in range(1, len(parts)):
            self._add_folder(parts[:end])
        if folder:
            self._add_folder(parts)
            return
        self._spell(parts)
        if parts in self._files:
            raise _refused("/".join(parts), "stands twice in it")
        if parts in self._folders:
            raise _both(parts)
        self._files.add(parts)

    def _add_folder(self, parts: Parts) -> None:
        if parts in self._folders:
            return
        self._spell(parts)
        if parts in self._files:
            raise _both(parts)
        self._folders.add(parts)

    def _spell(self, parts: Parts) -> None:
        first = self._spellings.setdefault(_folded(parts), parts)
        if first != parts:
            other = "/".join(first)
            raise _refused("/".join(parts), f"differs from {other!r} in case or accents only")


def _folded(parts: Iterable[str]) -> Parts:
    return tuple(unicodedata.normalize("NFC", part.casefold()) for part in parts)


def _both(parts: Parts) -> BadArchive:
    return _refused("/".join(parts), "is a file and a folder in it")


def _refused(name: str, why: str) -> BadArchive:
    shown = name if len(name) <= _MOST_BYTES else f"{name[:_MOST_BYTES]}…"
    return BadArchive(
        f"the archive's entry {shown!r} {why}",
        hint="SEMOSS writes no such archive, so nothing of it was taken; export it again, or unpack and look",
    )
