"""Classes named by a dotted Python path: looked for beside the smss file and in the engine's folder first."""

from __future__ import annotations

import importlib.machinery
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from enginehost.engine import EngineContext
from enginehost.errors import ConfigError
from enginehost_engines.absence import no_file
from enginehost_engines.python_source import PythonSource, read_source
from enginehost_engines.script_file import semoss_folders


@dataclass(frozen=True, slots=True)
class DottedClass:
    """``package.module:Class`` (or with a dot).

    ``file`` and ``source`` are its module's, where that lies beside the smss file or in the engine's folder;
    ``folders`` are those from which it imports, that of its module first.
    """

    module: str
    name: str
    file: Path | None
    source: PythonSource | None
    folders: tuple[str, ...]

    @property
    def path(self) -> str:
        """``package.module:Class``."""
        return f"{self.module}:{self.name}"

    @property
    def version(self) -> tuple[int, ...]:
        """Changes with the file."""
        if self.file is None:
            return ()
        stat = self.file.stat()
        return stat.st_mtime_ns, stat.st_size


def class_folders(context: EngineContext) -> Iterator[Path]:
    """Where modules are looked for before those that are installed: beside the smss file first."""
    yield context.folder
    yield from filter(Path.is_dir, semoss_folders(context))


def find_dotted(text: str, folders: Iterable[Path], key: str) -> DottedClass:
    """The class that ``key`` names, sought in ``folders``. Raises :class:`ConfigError`; imports nothing."""
    module, _, name = text.partition(":") if ":" in text else text.rpartition(".")
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        hint = "write package.module:Class"
        raise ConfigError(f"{key}: {text!r} is no dotted path", key=key, hint=hint, reason="bad-path")
    places = iter(folders)
    first = next(places)
    file, tried = _module_file(first, module), [first]
    if file is None:  # else the others are not even looked at: ten thousand files are loaded in seconds
        tried += places
        first, file = next(
            ((one, found) for one in tried if (found := _module_file(one, module))), (first, None)
        )
    if file is None:
        _check_not_odd(module, first, key)
        _check_installed(module, tried, key)
        return DottedClass(module, name, None, None, _resolved(tried))
    try:
        source = read_source(file)
    except ConfigError as error:
        error.key = key
        raise
    if not source.may_have(name):
        near = source.nearest(name)
        hint = f"it has {', '.join(near)}" if near else ""
        raise ConfigError(f"{file.name} has no class {name}", key=key, hint=hint, reason="class-missing")
    return DottedClass(module, name, file, source, _resolved([first, *tried]))


def _resolved(folders: Iterable[Path]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(folder.resolve()) for folder in folders))


def _module_file(folder: Path, module: str) -> Path | None:
    return next((file for file in _candidates(folder, module) if file.is_file()), None)


def _candidates(folder: Path, module: str) -> tuple[Path, Path]:
    base = folder.joinpath(*module.split(".")).resolve()
    return base.with_suffix(".py"), base / "__init__.py"


def _check_not_odd(module: str, folder: Path, key: str) -> None:
    """A pipe, or a folder, in the place of the module is not passed over for want of a file."""
    for file in _candidates(folder, module):
        if file.exists():
            hint = "put the module's text there"
            raise ConfigError(
                f"{key}: {no_file(file.name, file)}", key=key, hint=hint, reason="module-missing"
            )


def _check_installed(module: str, folders: Sequence[Path], key: str) -> None:
    top = module.partition(".")[0]
    if importlib.machinery.PathFinder.find_spec(top) is None:
        where = f", or into {folders[1].name}" if len(folders) > 1 else ""
        hint = f"put {top}.py beside the smss file{where}, or install the package"
        raise ConfigError(f"{key}: there is no module {module}", key=key, hint=hint, reason="module-missing")
