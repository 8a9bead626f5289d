"""Which files of the user's own folders a worker has imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice

MOST = 200
"""Files that are told; a program with more of its own is better restarted by hand."""

_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_STANDARD = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - pathlib costs start-up time


class Imports:
    """The files below ``folders`` that modules came from; ``script`` itself is none of them."""

    def __init__(self, folders: Iterable[str], script: str) -> None:
        self.folders = tuple(folders)
        self._folders = tuple(os.path.join(folder, "") for folder in self.folders)  # noqa: PTH118
        self._script = script
        self._looked_at: set[str] = set()
        self._count = 0
        self._files: dict[str, tuple[int, int]] = {}

    @property
    def files(self) -> dict[str, tuple[int, int]]:
        """Those known so far, in the order in which they were imported, as they were then."""
        return dict(islice(self._files.items(), MOST))

    def grew(self) -> bool:
        """Look again; whether there are more."""
        if len(sys.modules) == self._count:
            return False
        self._count, before = len(sys.modules), len(self._files)
        for name in [name for name in sys.modules if name not in self._looked_at]:
            self._looked_at.add(name)
            self._add(getattr(sys.modules.get(name), "__file__", None))
        return len(self._files) > before

    def add_those_behind(self, error: BaseException) -> None:
        """Count in the files that an exception of loading leads to, and those that it missed."""
        self.grew()
        for one in _chain(error):
            step = one.__traceback__
            while step is not None:
                self._add(step.tb_frame.f_code.co_filename)
                step = step.tb_next
            if isinstance(one, SyntaxError):
                self._add(one.filename)
            elif isinstance(one, ModuleNotFoundError) and one.name:
                for folder in self._folders:
                    path = folder + one.name.replace(".", os.sep)
                    self._add(f"{path}.py")
                    self._add(os.path.join(path, "__init__.py"))  # noqa: PTH118

    def _add(self, file: object) -> None:
        if (
            isinstance(file, str)
            and file.startswith(self._folders)
            and not file.startswith(_STANDARD)
            and not any(part in file for part in _INSTALLED)
            and file != self._script
            and file not in self._files
        ):
            self._files[file] = stamp(file)


def stamp(file: str) -> tuple[int, int]:
    """What changes when the file changes; zeros where there is none."""
    try:
        found = os.stat(file)  # noqa: PTH116 - a plain call, on the way to an engine's first call
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
