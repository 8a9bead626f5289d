"""Unpacks an export archive (ZIP) into a folder of its own, or nothing of it.

Written for archives that somebody made to do harm: everything that the directory of the archive says is
checked before the first byte is written, and what is unpacked can be no more than it says.
"""

from __future__ import annotations

import errno
import io
import stat
import struct
import zlib
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from enginehost.cli.output import counted
from enginehost.cli.semoss.archive_names import BadArchive, Names, Parts, parts_of, spelled

_ENCRYPTED = 0x1 | 0x40 | 0x2000
"""Flags: encrypted, strongly encrypted, masked headers (APPNOTE.TXT 4.4.4)."""

_MOST_AT_ONCE = 16 * 1024 * 1024
"""Bytes of one read: so large may the archive's directory be, which is read whole."""

_BLOCK = 1 << 16
_SMALL = 1024 * 1024
"""Entries up to so many bytes may be packed as tightly as they like."""

_LEFT_OUT = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", ".git", "__pycache__"})
"""What desktops, version control and Python add: no part of an engine."""

_DAMAGED = (
    *(BadZipFile, zlib.error, struct.error, EOFError, OverflowError),
    *(ValueError, NotImplementedError, RuntimeError),
)
"""What reading a damaged archive raises."""


class Limits(NamedTuple):
    """How much an archive may become: entries, bytes of all and of one, and bytes made of one byte."""

    entries: int = 20_000
    total: int = 4 * 1024**3
    entry: int = 2 * 1024**3
    ratio: int = 200


LIMITS = Limits()


class Planned(NamedTuple):
    """An entry and where it goes."""

    info: ZipInfo
    parts: Parts


class _Bounded(io.FileIO):
    """A file of which nobody reads more at once than is good: the directory's size is the archive's word."""

    def read(self, size: int | None = -1, /) -> bytes:
        """As a file's; ``ValueError`` for too much."""
        wanted = -1 if size is None else size
        if wanted > _MOST_AT_ONCE:
            raise ValueError("its directory is too large")
        return super().read(_MOST_AT_ONCE if wanted < 0 else wanted) or b""


def unpack(archive: Path, into: Path, limits: Limits = LIMITS) -> None:
    """Unpack the archive into the empty folder ``into``.

    Nothing is written elsewhere. Permissions, owners and times of the archive do not count. Raises
    :class:`~enginehost.cli.semoss.archive_names.BadArchive`; then ``into`` may hold a part of it, and is to
    be deleted.
    """
    with _told(archive), _Bounded(archive) as file, ZipFile(file) as opened:
        left = limits.total
        for planned in plan(opened.infolist(), limits):
            left -= _write(opened, planned, into, left)


def plan(infos: Sequence[ZipInfo], limits: Limits = LIMITS) -> list[Planned]:
    """The entries that become files and folders. Raises ``BadArchive`` where one of them must not."""
    if len(infos) > limits.entries:
        raise _too_much(f"has {len(infos)} entries; {limits.entries} are allowed")
    if sum(info.file_size for info in infos) > limits.total:
        raise _too_much(f"would become more than {limits.total} bytes")
    names = Names()
    return [one for one in _planned(infos, names, limits) if not _LEFT_OUT.intersection(one.parts)]


def _planned(infos: Iterable[ZipInfo], names: Names, limits: Limits) -> Iterable[Planned]:
    for info in infos:
        name = spelled(info)
        parts = parts_of(name)
        _check(info, name, limits)
        if parts:
            names.add(parts, folder=_is_folder(info))
            yield Planned(info, parts)


def _is_folder(info: ZipInfo) -> bool:
    return info.orig_filename.endswith(("/", "\\")) or stat.S_ISDIR(info.external_attr >> 16)


def _check(info: ZipInfo, name: str, limits: Limits) -> None:
    """Raise ``BadArchive`` for an entry that is no plain file or folder, or is too large."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        what = "a link" if kind == stat.S_IFLNK else "a device, a pipe or a socket"
        raise BadArchive(f"the archive's entry {name!r} is {what}", hint="only files and folders are taken")
    if info.flag_bits & _ENCRYPTED:
        raise BadArchive(
            f"the archive's entry {name!r} is encrypted", hint="unpack it, and import the folder"
        )
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        message = f"the archive's entry {name!r} is packed in a way ({info.compress_type}) that is not read"
        raise BadArchive(message, hint="unpack it, and import the folder")
    if _is_folder(info) and info.file_size:
        raise BadArchive(f"the archive's entry {name!r} is a folder with content", hint=_AGAIN)
    if info.file_size > limits.entry:
        raise _too_much(f"has an entry {name!r} of more than {limits.entry} bytes")
    if info.file_size > _SMALL and info.file_size > limits.ratio * max(info.compress_size, 1):
        raise _too_much(f"has an entry {name!r} that becomes more than {limits.ratio} times its size")


_AGAIN = "export it again"


def _too_much(what: str) -> BadArchive:
    hint = "nothing of it was taken; if it is what you expect, unpack it yourself, and import the folder"
    return BadArchive(f"the archive {what}", hint=hint)


def _write(opened: ZipFile, planned: Planned, into: Path, most: int) -> int:
    """Write one entry; how many bytes it was. Its name was checked, and ``into`` is ours alone."""
    place = into.joinpath(*planned.parts)
    if _is_folder(planned.info):
        place.mkdir(parents=True, exist_ok=True)
        return 0
    place.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    with opened.open(planned.info) as source, place.open("xb") as target:
        while block := source.read(_BLOCK):
            size += len(block)
            if size > min(most, planned.info.file_size):
                raise _too_much(
                    f"becomes more than the {counted(planned.info.file_size, 'byte')} it tells of"
                )
            target.write(block)
    if size != planned.info.file_size:
        raise BadZipFile("an entry is shorter than it says")
    return size


@contextmanager
def _told(archive: Path) -> Generator[None]:
    """Raise ``BadArchive`` for what reading a damaged archive raises."""
    try:
        yield
    except BadArchive:
        raise
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise _damaged(archive, "an entry lies outside of it") from error
    except _DAMAGED as error:
        raise _damaged(archive, str(error)) from error


def _damaged(archive: Path, why: str) -> BadArchive:
    message = f"{archive.name} is no ZIP archive, or is damaged: {why}"
    return BadArchive(message, hint=f"nothing of it was taken; {_AGAIN}, or import the folder")
