"""The smss files of a folder: which there are, and which changed since the last look."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from enginehost.diagnostics import Diagnostic, Severity

PRUNED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env"})
"""Folders that hold no smss files and may be huge; hidden ones (``.git``, ``.venv``) are pruned too."""

_SYSTEM = ("/proc", "/sys", "/dev")

SUFFIX = ".smss"
UNUSABLE = "unusable-file"
"""The code of the finding about what is named like a smss file and is none."""


class Fingerprint(NamedTuple):
    """What changes when a file changes."""

    modified_ns: int
    size: int
    inode: int


@dataclass(slots=True)
class Listing:
    """One look at a folder. ``missing`` where the folder itself is not there; ``unusable``: names of smss
    files that are none, with the reason.
    """

    files: dict[Path, Fingerprint] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    missing: bool = False
    unusable: dict[Path, str] = field(default_factory=dict)


def is_smss(path: Path) -> bool:
    """Whether the file name is that of an engine (``*.temp`` files of SEMOSS are none)."""
    return path.suffix.lower() == SUFFIX and not path.name.startswith(".")


def pruned(name: str) -> bool:
    """Whether a folder of this name is left alone."""
    return name.startswith(".") or name in PRUNED


def why_unusable(path: Path) -> str:
    """Why something that is named like a smss file, and is no folder, is no file either."""
    if not _is_text(str(path)):
        return "its name is not UTF-8"
    # not Path's: where a link cannot be followed for want of rights, they raise
    if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH110, PTH114
        return "the link leads to no file"
    if os.path.isdir(path):  # noqa: PTH112
        system = _leads_to_the_system(str(path))
        return f"the link leads to a folder {'of the system' if system else 'that holds it'}"
    return "it is neither a file nor a folder"


def unusable_file(path: Path, reason: str) -> Diagnostic:
    """That as a finding."""
    hint = "mend, rename or delete it: it is left out"
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    return Diagnostic(shown, 0, 0, Severity.WARNING, UNUSABLE, reason, hint)


def fingerprint(path: Path) -> Fingerprint | None:
    """The file's fingerprint, ``None`` where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return Fingerprint(found.st_mtime_ns, found.st_size, found.st_ino)


def _is_text(name: str) -> bool:
    """Whether a name can be shown and sent: one that is not UTF-8 holds lone surrogates."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def smss_fingerprint(path: Path) -> Fingerprint | None:
    """The fingerprint of a smss file; ``None`` also for what is named like one and is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or not _is_text(str(path)):
        return None
    return Fingerprint(found.st_mtime_ns, found.st_size, found.st_ino)


def look(root: Path) -> Listing:
    """Every smss file below ``root``, and every folder worth watching, ``root`` first."""
    listing = Listing()
    if not root.is_dir():
        listing.missing = True
        return listing
    own = os.path.realpath(root)
    visited: set[tuple[int, int]] = set()
    pending = [str(root)]
    while pending:
        folder = pending.pop()
        try:
            status = os.stat(folder)  # noqa: PTH116 - `os.scandir` and plain strings: 10,000 files in 35 ms
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                pending.extend(_look_at(entries, listing, own))
        except OSError:
            continue
        listing.folders.append(Path(folder))
    return listing


def _look_at(entries: Iterable[os.DirEntry[str]], listing: Listing, own: str) -> list[str]:
    folders: list[str] = []
    for entry in entries:
        named = entry.name.lower().endswith(SUFFIX) and not entry.name.startswith(".")
        try:
            if named and entry.is_file() and _is_text(entry.name):
                status = entry.stat()
                seen = Fingerprint(status.st_mtime_ns, status.st_size, status.st_ino)
                listing.files[Path(entry.path)] = seen
            elif entry.is_dir():
                if not pruned(entry.name):
                    _look_at_folder(entry, listing, folders, own)
            elif named:
                listing.unusable[Path(entry.path)] = why_unusable(Path(entry.path))
        except OSError:  # a link to itself; or it has gone
            if named and os.path.lexists(entry.path):
                listing.unusable[Path(entry.path)] = why_unusable(Path(entry.path))
    return folders


def _look_at_folder(entry: os.DirEntry[str], listing: Listing, folders: list[str], own: str) -> None:
    if not _is_text(entry.name) or (entry.is_symlink() and _leads_astray(entry.path, own)):
        listing.unusable[Path(entry.path)] = why_unusable(Path(entry.path))
    else:
        folders.append(entry.path)


def _leads_astray(path: str, own: str) -> bool:
    """Whether a link leads to the system's folders, or to one that holds the link, or the folder ``own``.

    Through such a one files would come in of which nobody thought.
    """
    target = os.path.realpath(path)
    holds = os.path.join(target, "")  # noqa: PTH118 - plain strings, as above
    places = (own, os.path.realpath(os.path.dirname(path)))  # noqa: PTH120
    return _leads_to_the_system(path) or any(f"{place}/".startswith(holds) for place in places)


def _leads_to_the_system(path: str) -> bool:
    """Whether a link leads to the kernel's folders, or to one that holds them: they are endless."""
    target = os.path.realpath(path)
    return any(target == place or target.startswith(place + "/") for place in _SYSTEM) or target == "/"
