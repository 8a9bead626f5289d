"""Copies what belongs to the engines of a source into one folder, as it would lie where it is served.

So what is loaded to be judged is, byte for byte, what is put in place afterwards.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from enginehost.cli.semoss.modules import LEFT_OUT
from enginehost.cli.semoss.survey import Found, Note

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class Gathered:
    """A file of the source: where its copy is, and by which names its parts lie beside one another.

    What could not be copied has no name. ``modules`` are those of the names that others may share.
    ``clash`` names the file of the source that has the same name and came first; then there is no copy.
    """

    found: Found
    file: Path
    names: tuple[str, ...] = ()
    modules: frozenset[str] = frozenset()
    clash: str = ""


def gather(all_found: list[Found], into: Path, root: Path, notes: list[Note]) -> list[Gathered]:
    """Copy the function engines among ``all_found`` into ``into``; what is left out of them is noted."""
    done: dict[str, tuple[Path, str]] = {}
    gathered: list[Gathered] = []
    for found in all_found:
        target = into / found.file.name
        if found.other_type:
            gathered.append(Gathered(found, target))
        elif clash := _clash(found, done):
            gathered.append(Gathered(found, target, clash=clash))
        else:
            done |= {name: (path, found.shown) for name, path in found.parts.items()}
            gathered.append(_copied(found, into, root, notes))
    return gathered


def _clash(found: Found, done: Mapping[str, tuple[Path, str]]) -> str:
    """The file that took one of the names already, for something else."""
    for name, path in found.parts.items():
        taken, by = done.get(name, (path, ""))
        if taken != path:
            return by
    return ""


def _copied(found: Found, into: Path, root: Path, notes: list[Note]) -> Gathered:
    _copy_file(found.file, into / found.file.name, root, notes)
    for folder in found.folders:
        if not (into / folder.name).exists():
            _copy_folder(folder, into / folder.name, root, notes)
    modules = {name: path for name, path in found.parts.items() if path in found.modules}
    for name, module in modules.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        if not (into / name).exists():
            _copy_file(module, into / name, root, notes)
    there = tuple(name for name in found.parts if (into / name).exists())
    return Gathered(found, into / found.file.name, there, frozenset(modules))


def _copy_folder(source: Path, target: Path, root: Path, notes: list[Note]) -> None:
    def unreadable(error: OSError) -> None:
        shown = _shown(Path(error.filename), root)
        notes.append(Note(shown, f"it cannot be read: {error.strerror}", "mend its permissions"))

    for folder, folders, files in os.walk(source, onerror=unreadable):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        links = [path for name in folders if (path := Path(folder, name)).is_symlink()]
        notes += [Note(_shown(path, root), "links to folders are not followed", _IN) for path in links]
        for name in files:
            if name not in LEFT_OUT:
                _copy_file(Path(folder, name), place / name, root, notes)


_IN = "put what it leads to in its place"


def _copy_file(source: Path, target: Path, root: Path, notes: list[Note]) -> None:
    """Copy content and permission; a link to a file of the same source becomes that file."""
    shown = _shown(source, root)
    if source.is_symlink():
        source = source.resolve()
        if not source.is_relative_to(root.resolve()):
            notes.append(Note(shown, "the link leads out of the folder, so it is left out", _IN))
            return
    try:
        with open(os.open(source, _OPEN), "rb") as opened:  # noqa: PTH123 - no link, and no pipe that waits
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                notes.append(Note(shown, "it is no regular file, so it is left out"))
                return
            with target.open("xb") as made:
                shutil.copyfileobj(opened, made, 1 << 20)
        target.chmod((found.st_mode & 0o777) | 0o600)
    except OSError as error:
        if target.exists():  # half of it: the disk is full
            raise
        notes.append(Note(shown, f"it cannot be read: {error.strerror}", "mend its permissions"))


def _shown(path: Path, root: Path) -> str:
    return os.fsencode(path.relative_to(root)).decode("utf-8", "backslashreplace")


def tidy(folder: Path) -> None:
    """Delete what Python left behind where code was loaded."""
    for cache in list(_caches(folder)):
        shutil.rmtree(cache, ignore_errors=True)


def _caches(folder: Path) -> Iterator[Path]:
    return folder.rglob("__pycache__")
