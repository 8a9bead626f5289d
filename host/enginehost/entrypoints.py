"""The entry points of the installed distributions, read without importing anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution

ENGINES = "enginehost.engines"
MODELS = "enginehost.models"
COMMANDS = "enginehost.commands"
IMPORTERS = "enginehost.importers"
HOOKS = "enginehost"
GROUPS = (ENGINES, MODELS, COMMANDS, IMPORTERS, HOOKS)
"""The entry-point groups that the host reads."""

HOST_DISTRIBUTION = "enginehost"

_PATH_IN_BRACKETS = re.compile(r"\s*\((?:/|[A-Za-z]:\\)[^)]*\)")


@dataclass(frozen=True, slots=True)
class PluginProblem:
    """Something wrong with a plugin. It is shown by ``plugins`` and ``doctor`` and stops nothing."""

    distribution: str
    entry_point: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"plugin {self.distribution}, {self.entry_point}: {self.message}"
        return f"{text} ({self.hint})" if self.hint else text


@dataclass(frozen=True, slots=True)
class Alias:
    """One entry point, known without importing what it names.

    ``name`` is what ``ENGINE_CLASS`` takes (for commands: the command), ``value`` is
    ``package.module:Class``.
    """

    name: str
    value: str
    group: str
    distribution: str
    version: str

    @property
    def title(self) -> str:
        """What people call it: of a Java class name the last part."""
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.group}: {self.name} = {self.value}"


def scan(installed: Iterable[Distribution], report: Callable[[PluginProblem], None]) -> list[Alias]:
    """All entry points of :data:`GROUPS`: the host's own first, then by distribution and name.

    A distribution whose metadata cannot be read is reported and skipped.
    """
    seen: set[str] = set()
    found: list[Alias] = []
    for distribution in installed:
        try:
            found += _points(distribution, seen)
        except Exception as error:  # noqa: BLE001 - the plugin boundary: metadata is a stranger's text
            report(_unreadable(distribution, error))
    return sorted(found, key=_rank)


def _points(distribution: Distribution, seen: set[str]) -> Iterator[Alias]:
    if "enginehost" not in (distribution.read_text("entry_points.txt") or ""):
        return
    name, version = _identity(distribution)
    if name in seen:  # shadowed by the copy earlier on sys.path
        return
    seen.add(name)
    for point in distribution.entry_points:
        if point.group in GROUPS:
            yield Alias(point.name, point.value, point.group, name, version)


def describe(error: BaseException) -> str:
    """One line without local paths: the exception's class and text."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    first = f"{type(error).__name__}: {text}".splitlines()[0]
    return _PATH_IN_BRACKETS.sub("", first).strip().removesuffix(":")


def _rank(alias: Alias) -> tuple[bool, str, str, str, str]:
    is_guest = alias.distribution != HOST_DISTRIBUTION
    return is_guest, alias.distribution, alias.group, alias.name, alias.value


def _identity(distribution: Distribution) -> tuple[str, str]:
    metadata = distribution.metadata
    name = metadata["Name"] or "unknown"
    return re.sub(r"[-_.]+", "-", name).lower(), metadata["Version"] or ""


def _unreadable(distribution: Distribution, error: Exception) -> PluginProblem:
    folder = getattr(distribution, "_path", None)
    name = getattr(folder, "name", "unknown").removesuffix(".dist-info")
    return PluginProblem(name, "entry_points.txt", f"cannot be read: {describe(error)}", "install it again")
