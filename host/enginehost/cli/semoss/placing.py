"""Puts engines into the folder that is served: all that are to go there, or none."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from enginehost.cli.semoss.gather import Gathered
from enginehost.cli.semoss.judging import Judged, Verdict
from enginehost.cli.semoss.survey import NOTHING
from enginehost.diagnostics import Severity
from enginehost.folder import SUFFIX, look
from enginehost.interpret import interpret
from enginehost.loader import MAX_FILE_BYTES
from enginehost.parameters import read_name
from enginehost.regular_file import read_regular
from enginehost.signature import UNREAD


class Action(StrEnum):
    """What became of a file, or would become of it in a dry run."""

    IMPORTED = "imported"
    REPLACED = "replaced"
    UNCHANGED = "already there"
    KEPT = "not overwritten"
    LEFT_OUT = "left out"


class Neighbour(NamedTuple):
    """A smss file that the folder has already."""

    engine_id: str
    function: str


def neighbours(target: Path) -> dict[Path, Neighbour]:
    """Who lives in the folder already, by path."""
    found: dict[Path, Neighbour] = {}
    for path in look(target).files:
        try:
            declaration = interpret(read_regular(path, MAX_FILE_BYTES), path, NOTHING)
        except OSError:
            continue
        name = read_name(declaration, complete=True).name
        found[path] = Neighbour(declaration.engine_id, "" if name == UNREAD else name)
    return found


def state(gathered: Gathered, ready: Path, target: Path) -> Action:
    """What the folder has of the file: nothing (``IMPORTED``), the same, or something else (``KEPT``).

    To be asked before the code is loaded, which may write beside itself.
    """
    there = [name for name in gathered.names if os.path.lexists(_holder(target, name))]
    others = [name for name in there if not _has(target / name, ready / name)]
    if not others and gathered.modules.issuperset(there):
        return Action.IMPORTED
    return Action.UNCHANGED if not others and len(there) == len(gathered.names) else Action.KEPT


def _holder(target: Path, name: str) -> Path:
    """What holds the place of ``name``: itself, or what is no folder where one has to be on the way."""
    place = target
    for part in name.split("/"):
        place /= part
        if place.is_symlink() or not place.is_dir():
            break
    return place


def _has(place: Path, copy: Path) -> bool:
    """Whether all that ``copy`` holds is in ``place``; what functions wrote beside it does not count."""
    if not copy.is_dir():
        return place.is_file() and filecmp.cmp(place, copy, shallow=False)
    if not place.is_dir():
        return False
    for folder, _, files in os.walk(copy):
        inside = place / Path(folder).relative_to(copy)
        if not inside.is_dir() or not all(_has(inside / name, Path(folder, name)) for name in files):
            return False
    return True


def decide(judged: Judged, has: Action, *, everything: bool, force: bool) -> Action:
    """What is to become of a file. ``everything``: also of one that cannot run."""
    if judged.verdict is Verdict.OTHER or judged.gathered.file.name not in judged.gathered.names:
        return Action.LEFT_OUT
    if judged.verdict is Verdict.CANNOT and not everything and has is not Action.UNCHANGED:
        return Action.LEFT_OUT
    if has is Action.KEPT and force:
        return Action.REPLACED
    return has


def settle_ids(
    judged: Iterable[tuple[Judged, Action]], target: Path, there: Mapping[Path, Neighbour]
) -> list[Action]:
    """The same actions, but that no engine comes twice into the folder under two names.

    Engines that share an id with another file are kept out; function names that are taken are told.
    """
    ids = {one.engine_id: path for path, one in sorted(there.items(), reverse=True)}
    names = {one.function: path for path, one in sorted(there.items(), reverse=True) if one.function}
    settled: list[Action] = []
    for one, action in judged:
        if action not in (Action.IMPORTED, Action.REPLACED):
            settled.append(action)
            continue
        place = target / one.gathered.file.name
        holder = ids.setdefault(one.engine_id, place)
        if holder != place:
            _tell_id(one, holder, target)
            settled.append(Action.KEPT)
            continue
        for name in one.functions:
            if (other := names.setdefault(name, place)) != place:
                _tell_name(one, name, other, target)
        settled.append(action)
    return settled


def _tell_id(judged: Judged, holder: Path, target: Path) -> None:
    message = f"the engine id {judged.engine_id!r} is that of {holder.relative_to(target)} already"
    hint = "delete that file, or give this one another ENGINE and a folder of that name"
    judged.tell(Severity.WARNING, "duplicate-engine-id", message, hint)


def _tell_name(judged: Judged, name: str, other: Path, target: Path) -> None:
    message = f"{name!r} is also declared by {other.relative_to(target)}: only the first path keeps a name"
    judged.tell(Severity.WARNING, "name-conflict", message, "give one of them another FUNCTION_NAME")


def place(judged: Iterable[tuple[Judged, Action]], ready: Path, target: Path, aside: Path) -> None:
    """Move what is to be imported or replaced from ``ready`` to ``target``, what was there to ``aside``.

    All three are on one disk, so that each move is one step. Where one fails, those before it are undone,
    and its ``OSError`` is raised. Folders go first: with its smss file an engine is live.
    """
    wanted = [one.gathered for one, action in judged if action in (Action.IMPORTED, Action.REPLACED)]
    all_names = dict.fromkeys(name for one in wanted for name in one.names)
    modules = frozenset[str]().union(*(one.modules for one in wanted))
    names = [name for name in all_names if name not in modules or not _is_there(name, target, ready)]
    moved: list[tuple[Path, Path]] = []
    made: list[Path] = []
    try:
        for name in sorted(names, key=lambda name: (name.lower().endswith(SUFFIX), name)):
            holder = _holder(target, name)
            if os.path.lexists(holder):
                old = aside / holder.relative_to(target)
                old.parent.mkdir(parents=True, exist_ok=True)
                _move(holder, old, moved)
            made += _made((target / name).parent)
            _move(ready / name, target / name, moved)
    except BaseException:
        for source, goal in reversed(moved):
            goal.rename(source)
        for folder in reversed(made):
            folder.rmdir()
        raise


def _is_there(module: str, target: Path, ready: Path) -> bool:
    """Whether the folder has the module already, as it is here: what runs with it goes on."""
    return not _holder(target, module).is_symlink() and _has(target / module, ready / module)


def _made(folder: Path) -> list[Path]:
    """Make the folder where it is missing; those that were made, outermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _move(source: Path, goal: Path, moved: list[tuple[Path, Path]]) -> None:
    source.rename(goal)
    moved.append((source, goal))


def delete(folder: Path) -> None:
    """Delete a folder of ours, whatever permissions its content came with."""
    for inner, _, _ in os.walk(folder):
        Path(inner).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
