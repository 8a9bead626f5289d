"""What lies in a folder of SEMOSS's: which smss files, and which folder belongs to which.

SEMOSS keeps ``function/<alias>__<id>.smss`` with the engine's folder ``<alias>__<id>/`` beside it; an export
archive has the same two at its top. A whole base folder (``db``, ``model``, ``function`` …) is fine too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from enginehost.cli.semoss.modules import modules_beside
from enginehost.folder import is_smss, pruned
from enginehost.interpret import Declaration, interpret
from enginehost.known_classes import SEMOSS_PREFIX, other_catalog_type
from enginehost.loader import MAX_FILE_BYTES
from enginehost.regular_file import read_regular
from enginehost.substitute import Sources

_MOST_DEEP = 8
"""Levels at which smss files are looked for; SEMOSS has two."""

_MOST_NOTES = 20
_TEMP = ".temp"


class Note(NamedTuple):
    """Something in the source that is not taken, or a part of it, and why. ``path`` is from its top."""

    path: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A smss file, and the folders of its engine that are there. ``shown`` is its path from the top.

    ``modules`` are files beside it that the class it names is made of; others may use them too.
    """

    file: Path
    shown: str
    folders: tuple[Path, ...] = ()
    modules: tuple[Path, ...] = ()
    other_type: str | None = None
    """SEMOSS's catalog type, of a file that declares no function engine."""

    @property
    def parts(self) -> dict[str, Path]:
        """All of it, by where each lies in the folder of the smss file, which comes first."""
        top = self.file.parent
        return {path.relative_to(top).as_posix(): path for path in (self.file, *self.folders, *self.modules)}


@dataclass(slots=True)
class Survey:
    """All of it."""

    found: list[Found] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def survey(root: Path) -> Survey:
    """Look through the folder; nothing is changed and nothing is loaded."""
    seen = Survey()
    others: list[Note] = []
    pending = [(root, 0)]
    while pending:
        folder, depth = pending.pop()
        names = _names(folder)
        files = [folder / name for name in names if is_smss(Path(name)) and (folder / name).is_file()]
        level = [_found(file, root) for file in files]
        seen.found += level
        taken = {path.name for one in level for path in (one.file, *one.folders)}
        further = [name for name in names if name not in taken]
        others += _further(folder, further, root)
        if depth < _MOST_DEEP:
            pending += [(folder / name, depth + 1) for name in reversed(further) if _is_level(folder / name)]
    seen.notes = _few(others)
    return seen


def _names(folder: Path) -> list[str]:
    """The names in a folder; not those that are no text, which nobody could import."""
    try:
        return sorted(path.name for path in folder.iterdir() if _is_text(path.name))
    except OSError:
        return []


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _is_level(path: Path) -> bool:
    """Whether smss files are looked for in there too."""
    return not pruned(path.name) and path.is_dir() and not path.is_symlink()


def _found(file: Path, root: Path) -> Found:
    shown = file.relative_to(root).as_posix()
    try:
        data = read_regular(file, MAX_FILE_BYTES)
    except OSError:
        data = b""
    declaration = interpret(data, file, NOTHING)
    names = dict.fromkeys((file.stem, declaration.unique_name))
    folders = [file.parent / name for name in names if _is_name(name)]
    there = tuple(path for path in folders if path.is_dir() and not path.is_symlink())
    other = other_catalog_type(declaration.engine_class)
    return Found(file, shown, there, () if other else _modules(declaration, file.parent, there), other)


_SCRIPTS = ("*.py", "py/*.py", "app_root/version/assets/*.py")
"""Where the modules of an engine lie in its own folder."""


def _modules(declaration: Declaration, top: Path, folders: Iterable[Path]) -> tuple[Path, ...]:
    """Of a class in Python, the files beside the smss file that it is made of."""
    dotted = (declaration.text("REACTOR_CLASS_NAME") or "").strip() or declaration.engine_class
    module = dotted.partition(":")[0] if ":" in dotted else dotted.rpartition(".")[0]
    if not module or dotted.startswith(SEMOSS_PREFIX):
        return ()
    scripts = [script for folder in folders for where in _SCRIPTS for script in folder.glob(where)]
    found = modules_beside(top, [module], scripts)
    return tuple(file for file in found if not any(map(file.is_relative_to, folders)))


NOTHING = Sources(env=lambda _: "", file=lambda _: "", secret=lambda _: "")
"""Sources that have nothing to give: what a file says by itself."""


def _is_name(name: str) -> bool:
    """Whether an alias and an id, which are any text, make the name of a folder."""
    return (
        _is_text(name)
        and name not in ("", ".", "..")
        and "/" not in name
        and "\0" not in name
        and len(name.encode("utf-8", "replace")) < 256
    )


def _further(folder: Path, names: list[str], root: Path) -> Iterator[Note]:
    """What else lies at a level, where somebody may wonder about it."""
    for name in names:
        path = folder / name
        shown = path.relative_to(root).as_posix()
        if name.lower().endswith(".zip"):
            yield Note(shown, "an archive in it is not unpacked", f"import it by itself: {name}")
        elif name.lower().endswith(_TEMP):
            yield Note(shown, "SEMOSS had not finished this engine", "create it again there")
        elif is_smss(Path(name)):
            yield Note(shown, "it is no file", "")
        elif "__" in name and path.is_dir() and not path.is_symlink():
            yield Note(shown, "no smss file belongs to this folder", f"export the engine again: {name}.smss")
        elif path.is_symlink():
            yield Note(shown, "links are not followed", "import what it leads to")


def _few(notes: list[Note]) -> list[Note]:
    if len(notes) <= _MOST_NOTES:
        return notes
    return [*notes[:_MOST_NOTES], Note("", f"and {len(notes) - _MOST_NOTES} more of that kind")]
