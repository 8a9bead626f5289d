"""Classes named by a dotted Python path: looked for beside the smss file first."""

from __future__ import annotations

import importlib.machinery
from dataclasses import dataclass
from pathlib import Path

from enginehost.errors import ConfigError
from enginehost_engines.absence import no_file
from enginehost_engines.python_source import PythonSource, read_source


@dataclass(frozen=True, slots=True)
class DottedClass:
    """``package.module:Class`` (or with a dot).

    ``file`` and ``source`` are its module's, where that lies beside the smss file.
    """

    module: str
    name: str
    file: Path | None
    source: PythonSource | None

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


def find_dotted(text: str, folder: Path, key: str) -> DottedClass:
    """The class that ``key`` names. Raises :class:`ConfigError`; imports nothing."""
    module, _, name = text.partition(":") if ":" in text else text.rpartition(".")
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        hint = "write package.module:Class"
        raise ConfigError(f"{key}: {text!r} is no dotted path", key=key, hint=hint, reason="bad-path")
    file = _module_file(folder, module)
    if file is None:
        _check_not_odd(module, folder, key)
        _check_installed(module, folder, key)
        return DottedClass(module, name, None, None)
    try:
        source = read_source(file)
    except ConfigError as error:
        error.key = key
        raise
    if not source.may_have(name):
        near = source.nearest(name)
        hint = f"it has {', '.join(near)}" if near else ""
        raise ConfigError(f"{file.name} has no class {name}", key=key, hint=hint, reason="class-missing")
    return DottedClass(module, name, file, source)


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


def _check_installed(module: str, folder: Path, key: str) -> None:
    top = module.partition(".")[0]
    if importlib.machinery.PathFinder.find_spec(top) is None:
        hint = f"put {top}.py beside the smss file, or install the package"
        raise ConfigError(f"{key}: there is no module {module}", key=key, hint=hint, reason="module-missing")
