"""Which files beside a smss file a Python class of it consists of: its module, and those that it imports."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from enginehost.regular_file import read_regular

LEFT_OUT = frozenset({".git", "__pycache__", ".DS_Store"})
"""History, and what is made anew."""

_INIT = "__init__.py"
_LARGEST = 4 << 20
_MOST = 1000
"""Files; nobody's reactor has more of its own."""


def modules_beside(folder: Path, names: Iterable[str], scripts: Iterable[Path]) -> tuple[Path, ...]:
    """The files below ``folder`` that the modules ``names``, and what ``scripts`` import, are made of.

    A package comes as a whole; of a folder without ``__init__.py`` only the modules that are imported.
    Nothing is run: what is imported by a computed name is not seen.
    """
    pending = [*names, *(name for script in scripts for name in _imported(script, ()))]
    seen: set[str] = set()
    found: dict[Path, None] = {}
    while pending and len(found) < _MOST:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        for file in _files(folder, name.split(".")):
            if file not in found:
                found[file] = None
                pending += _imported(file, file.relative_to(folder).parent.parts)
    return tuple(sorted(found))


def _files(folder: Path, parts: list[str]) -> Iterable[Path]:
    """The files of the module below ``folder``; none where it is not there, and so is installed."""
    place = folder
    for part in parts:
        if not part.isidentifier():
            return ()
        if (place / f"{part}.py").is_file():
            return (place / f"{part}.py",)
        place /= part
        if place.is_symlink() or not place.is_dir():
            return ()
        if (place / _INIT).is_file():
            return _all_of(place)
    return ()


def _all_of(package: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(package):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        yield from (Path(folder, name) for name in files if name not in LEFT_OUT)


def _imported(file: Path, package: tuple[str, ...]) -> Iterator[str]:
    """The modules that ``file``, which lies in ``package``, imports; also names that may be modules."""
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *filter(None, (node.module,))))
            yield base
            yield from (f"{base}.{one.name}".lstrip(".") for one in node.names)


def _tree(file: Path) -> ast.Module:
    """What the file says; nothing where that is no Python, which whoever loads it tells better."""
    if file.suffix == ".py":
        try:
            return ast.parse(read_regular(file, _LARGEST))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            pass
    return ast.Module([], [])
