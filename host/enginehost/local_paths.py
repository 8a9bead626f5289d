"""Finds the paths of this machine in a text and cuts them to their last part.

A path may be written in many ways, so two means are used: folders that are known (home, the host's own, those
of scripts) are found as they stand, everything else by what absolute paths look like.
"""

from __future__ import annotations

import re
import sys
import tempfile
from functools import cache, lru_cache
from pathlib import Path

_UNIX = (
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib64",
    "media",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
)
_ROOTS = frozenset([*_UNIX, "srv", "sys", "tmp", "usr", "var", "private", "Users", "Volumes", "Library"])
"""First parts of the paths of Unix systems, this one or another."""

_LOOK_BACK = 200
"""Characters before a slash that say whether it belongs to a URL or a path."""

_MOST_IN_PATH = 1024
_MOST_IN_PART = 120

_URL_BEFORE = re.compile(r"\w{2,}:/{2,}[\w.~%/:@+\[\]-]*\Z")
_SCHEME_BEFORE = re.compile(r"\w{2,}:\Z")
_MAY_PRECEDE = re.compile(r"(?:(?<![\w/.~-])|(?<![\w-])--?[A-Za-z]+|\\[nrtabfv0])\Z")
_HARD_END = re.compile(r"[\n\r\0\"'`<>|*\\]")
_PART_END = re.compile(r"[,;:!?] | \Z|\A ")
_NO_PART = " :,;=()[]{}"

# no possessive groups: before Python 3.11.5, they lose the groups behind them
_FOLDER = r"[\w.@+ $(),'&#~!%;=^{}\[\]-]++(?<![ '])\\++"
"""A folder of Windows; a space or a quote before the backslash ends the path."""
_WINDOWS = re.compile(rf"(?:\b|(?<=\\[nrtabfv0]))[A-Za-z]:\\++(?:{_FOLDER})*|(?<![\\\w])\\\\++(?:{_FOLDER})+")
"""All of a path of Windows but its last part."""
_LIKE_A_PATH = (
    r"(?i:(?<!\$\{)\bfile:)/+(?=[^\s/\"'])|(?<!/)/++(?![A-Za-z]:/)(?P<root>[\w.@+-]+)"
    r"|(?<![\w/.])~[\w.-]*/|(?<![A-Za-z0-9])[A-Za-z]:/(?!/)"
)

_MOST_KNOWN = 200
_known: dict[str, None] = {}
"""The folders that are known, the one that was told last at the end."""


def know_folder(folder: Path) -> None:
    """Cut paths in ``folder`` from now on, however they are written, in the whole process."""
    text = folder.as_posix()
    if text.count("/") < 2 or any(text.startswith(f"{k}/") for k in _known):
        return
    _known.pop(text, None)
    _known[text] = None
    if len(_known) > _MOST_KNOWN:
        del _known[next(iter(_known))]


def cut_paths(text: str) -> str:
    """``text`` with each local path cut to its last part. Takes time linear in the text."""
    text = text.replace("\\/", "/")  # as JSON may write it
    if "/" in text:
        text = _cut_slashed(text)
    return _WINDOWS.sub(_kept_of_windows, text) if "\\" in text else text


@cache
def _roots() -> frozenset[str]:
    try:
        return _ROOTS.union(entry.name for entry in Path("/").iterdir())
    except OSError:
        return _ROOTS


@cache
def _own_folders() -> tuple[str, ...]:
    """Folders of the process itself."""
    found = {Path(sys.prefix).as_posix(), Path(sys.base_prefix).as_posix()}
    for folder in (Path.home, Path.cwd, lambda: Path(tempfile.gettempdir())):
        try:
            found.add(folder().as_posix())
        except (OSError, RuntimeError):
            continue
    return tuple(path for path in found if path.count("/") > 1)


@lru_cache(4)
def _starts(known: frozenset[str]) -> re.Pattern[str]:
    """Where a path may begin; one of a known folder does wherever it stands."""
    folders = sorted({*known, *_own_folders()}, key=len, reverse=True)
    literal = "|".join(map(re.escape, folders))
    return re.compile(rf"(?:{literal})(?![\w-])|{_LIKE_A_PATH}" if literal else _LIKE_A_PATH)


def _cut_slashed(text: str) -> str:
    pattern = _starts(frozenset(_known))
    pieces: list[str] = []
    done = at = 0
    while (match := pattern.search(text, at)) is not None:
        at = match.end()
        if _is_local(text, match):
            pieces.append(text[done : match.start()])
            done, kept = _last_part(text, match.start(), match.end())
            pieces.append(kept)
            at = max(at, done)
    return "".join((*pieces, text[done:]))


def _is_local(text: str, match: re.Match[str]) -> bool:
    root = match["root"]
    if root is None:
        return True
    if root not in _roots():
        return False
    before = text[max(0, match.start() - _LOOK_BACK) : match.start()]
    if _URL_BEFORE.search(before) or (match[0].startswith("//") and _SCHEME_BEFORE.search(before)):
        return False
    return bool(_MAY_PRECEDE.search(before))


def _last_part(text: str, start: int, sure: int) -> tuple[int, str]:
    """Where the last part of the path at ``start`` begins, or where the path ends with its last part told.

    ``sure``: an offset up to which all belongs to the path.
    """
    end = _path_end(text, start, sure)
    slash = text.rfind("/", start, max(end, sure))
    following = text[slash + 1 : slash + 2]
    if following and following not in _NO_PART and not _HARD_END.match(following):
        return slash + 1, ""
    parts = text[start : slash + 1].rstrip("/")
    return slash + 1, parts[parts.rfind("/") + 1 :]


def _path_end(text: str, start: int, sure: int) -> int:
    """The offset behind the last slash that belongs to the path, at least ``sure``."""
    stop = _HARD_END.search(text, sure, start + _MOST_IN_PATH)
    limit = stop.start() if stop else min(len(text), start + _MOST_IN_PATH)
    at = sure
    while (slash := text.find("/", at, limit)) >= 0:
        part = text[at:slash]
        if len(part) > _MOST_IN_PART or _PART_END.search(part) or not _is_balanced(part):
            break
        at = slash + 1
    return at


def _is_balanced(part: str) -> bool:
    return part.count("(") == part.count(")") and part.count("[") == part.count("]")


def _kept_of_windows(match: re.Match[str]) -> str:
    """Nothing where a last part follows; else the folder that is last."""
    following = match.string[match.end() : match.end() + 1]
    if following and following not in _NO_PART and not _HARD_END.match(following):
        return ""
    return match[0].rstrip("\\").rsplit("\\", 1)[-1]
