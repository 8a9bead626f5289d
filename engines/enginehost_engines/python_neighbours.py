"""The modules beside a script from which it takes names: read as the script itself is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from enginehost.errors import ConfigError
from enginehost_engines.python_source import PythonSource, read_source


class Neighbour(NamedTuple):
    """A module, by the name under which it is imported."""

    module: str
    file: Path
    source: PythonSource


def neighbours(source: PythonSource, folders: Sequence[str]) -> tuple[Neighbour, ...]:
    """Those in the script's folders; one that cannot be read is for the import to complain of."""
    return tuple(_found(source, folders)) if source.imports else ()


def _found(source: PythonSource, folders: Sequence[str]) -> Iterator[Neighbour]:
    for module in dict.fromkeys(_modules(source)):
        file = _file(module, folders)
        if file is not None:
            try:
                yield Neighbour(module, file, read_source(file))
            except (ConfigError, OSError):
                continue


def _modules(source: PythonSource) -> Iterator[str]:
    """What may be a module among the names that are imported."""
    for name in source.imports.values():
        if name and name.partition(".")[0] not in sys.stdlib_module_names:
            yield name
            yield name.rpartition(".")[0]


def _file(module: str, folders: Sequence[str]) -> Path | None:
    for folder in folders if module else ():
        base = os.path.join(folder, *module.split("."))  # noqa: PTH118 - of thousands of files
        for file in (f"{base}.py", os.path.join(base, "__init__.py")):  # noqa: PTH118
            if os.path.isfile(file):  # noqa: PTH113
                return Path(file)
    return None
