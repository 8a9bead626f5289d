"""Which plugins are installed, which engine classes they provide, and what is wrong with them.

Entry points are read once and loaded one by one when first used: a plugin that fails to load is a
:class:`PluginProblem` and whoever asked for it gets a ``ConfigError``; nothing else is touched.
"""

from __future__ import annotations

import difflib
import inspect
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from enginehost.engine import EngineContext, IFunctionEngine
from enginehost.entrypoints import (
    COMMANDS,
    ENGINES,
    GROUPS,
    HOOKS,
    MODELS,
    Alias,
    PluginProblem,
    describe,
    scan,
)
from enginehost.errors import ConfigError
from enginehost.known_classes import PLUGINS, SEMOSS_PREFIX, other_catalog_type, semoss_reason

if TYPE_CHECKING:
    from pydantic import BaseModel

CLASS_RUNNER = "PythonClass"
"""The alias of the engine that runs a ``package.module:Class`` in a worker process."""

_NEAR = 0.7
"""How alike two names have to be for one to be taken for a slip of the other."""

_CONTRACT = ("open", "close", "functions", "watched", "config_model", "requires_signature")
_MODEL_CONTRACT = (*_CONTRACT, "stream", "models", "default_model")
_BASES = {MODELS: "enginehost.llm.model.AbstractModelEngine"}
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class EngineClass(Protocol):
    """What an entry point of ``enginehost.engines`` names: ``AbstractFunctionEngine``, or its like."""

    @property
    def config_model(self) -> type[BaseModel] | None:
        """The pydantic model of the engine's own smss keys."""
        ...

    @property
    def requires_signature(self) -> bool:
        """Whether a file without ``FUNCTION_NAME`` is an error."""
        ...

    def __call__(self, context: EngineContext, config: Any = None) -> IFunctionEngine:
        """Make an engine; see :class:`~enginehost.engine.IFunctionEngine`."""
        ...


@dataclass(frozen=True, slots=True)
class Registered:
    """``ENGINE_CLASS`` names an alias."""

    alias: Alias


@dataclass(frozen=True, slots=True)
class DottedClass:
    """``ENGINE_CLASS`` is ``package.module:Class``; ``runner`` runs it in a worker process."""

    path: str
    runner: Alias


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Nobody provides the class. ``nearest`` are aliases that look like it.

    ``other_type``: it belongs to a file of another SEMOSS catalog type (a model, a database, …), from which
    nobody expects a function.
    """

    text: str
    reason: str
    nearest: tuple[str, ...] = ()
    other_type: bool = False

    @property
    def hint(self) -> str:
        """What to do."""
        if plugin := PLUGINS.get(self.text.casefold()):
            return f"install the plugin {plugin}, and start the host again"
        if self.other_type:
            return ""
        if self.nearest:
            return f"did you mean {', '.join(self.nearest)}?"
        if "." in self.text and not self.text.startswith(SEMOSS_PREFIX):
            return "a Python class is written package.module:Class"
        return "install a plugin that provides it; a host that runs looks for plugins when it starts again"


Resolution = Registered | DottedClass | Unsupported


class PluginRegistry:
    """The entry points of the installed distributions, read at construction.

    Where two distributions register one alias, the host's own keeps it, then the one whose name sorts
    first; the other is a problem. Usable from any thread.
    """

    def __init__(self, installed: Iterable[Distribution] | None = None) -> None:
        self.problems: list[PluginProblem] = []
        self._lock = threading.RLock()
        self._aliases: dict[tuple[str, str], Alias] = {}
        self._folded: dict[str, Alias] = {}
        self._loaded: dict[Alias, Any] = {}
        self._failed: dict[Alias, tuple[str, str]] = {}
        for alias in scan(distributions() if installed is None else installed, self.report):
            self._add(alias)

    def aliases(self, *groups: str) -> tuple[Alias, ...]:
        """What is registered in these groups (none given: as engines and models), by name."""
        wanted = groups or (ENGINES, MODELS)
        found = [alias for (group, _), alias in self._aliases.items() if group in wanted]
        return tuple(sorted(found, key=lambda alias: (alias.name, alias.group)))

    def resolve_engine_class(self, text: str) -> Resolution:
        """What the value of ``ENGINE_CLASS`` means. Imports nothing."""
        text = text.strip()
        if alias := self._find(text):
            return Registered(alias)
        runner = self._find(CLASS_RUNNER)
        if runner and _DOTTED.fullmatch(text):
            return DottedClass(text, runner)
        return self._unsupported(text)

    def engine_class(self, alias: str) -> EngineClass:
        """The class registered as ``alias`` (exactly, else without case), loaded when first asked for.

        Raises ``ConfigError`` when nobody provides it or when it does not load.
        """
        found = self._find(alias)
        if found is None:
            missing = self._unsupported(alias)
            raise ConfigError(missing.reason, hint=missing.hint, reason="unsupported-engine-class")
        loaded = self.load(found)
        if not _is_engine_class(loaded, found.group):
            base = _BASES.get(found.group, "enginehost.AbstractFunctionEngine")
            raise self._fail(found, _what_is_missing(loaded, found.group), f"subclass {base}")
        return loaded

    def load(self, alias: Alias) -> Any:
        """What the entry point names. Raises ``ConfigError`` when it does not load, each time."""
        with self._lock:
            if alias in self._failed:
                raise _broken(alias, *self._failed[alias])
            if alias not in self._loaded:
                try:
                    self._loaded[alias] = EntryPoint(alias.name, alias.value, alias.group).load()
                except (Exception, SystemExit) as error:  # the plugin boundary: any import may raise anything
                    hint = f"mend or uninstall {alias.distribution}"
                    raise self._fail(alias, f"does not load: {describe(error)}", hint) from error
            return self._loaded[alias]

    def add_engine_class(self, alias: Alias, engine_class: Any) -> None:
        """Register a class that a plugin made at run. What is wrong with it is a problem."""
        with self._lock:
            if not _is_engine_class(engine_class, alias.group):
                base = _BASES.get(alias.group, "AbstractFunctionEngine")
                self._report(alias, _what_is_missing(engine_class, alias.group), f"subclass {base}")
            elif self._add(alias):
                self._loaded[alias] = engine_class

    def report(self, problem: PluginProblem) -> None:
        """Add a problem that was found elsewhere, once."""
        with self._lock:
            if problem not in self.problems:
                self.problems.append(problem)

    def _report(self, alias: Alias, message: str, hint: str) -> None:
        self.report(PluginProblem(alias.distribution, str(alias), message, hint))

    def _fail(self, alias: Alias, message: str, hint: str) -> ConfigError:
        with self._lock:
            self._failed[alias] = message, hint
            self._report(alias, message, hint)
        return _broken(alias, message, hint)

    def _find(self, text: str) -> Alias | None:
        for group in (ENGINES, MODELS):
            if alias := self._aliases.get((group, text)):
                return alias
        return self._folded.get(text.casefold())

    def _unsupported(self, text: str) -> Unsupported:
        if reason := semoss_reason(text):
            if other_catalog_type(text):
                return Unsupported(text, reason, other_type=True)
            return Unsupported(text, reason, self._nearest(text.rpartition(".")[2], semoss=True))
        if not text:
            return Unsupported(text, "ENGINE_CLASS is blank")
        return Unsupported(text, f"no plugin provides the engine class {text!r}", self._nearest(text))

    def _nearest(self, text: str, *, semoss: bool = False) -> tuple[str, ...]:
        shown: dict[str, str] = {}
        for alias in self.aliases():
            shown.setdefault(_bare(alias.name), alias.name)
        if semoss:  # a class of its own is no slip of a kind that SEMOSS does not have
            theirs = {_bare(alias.name) for alias in self.aliases() if alias.name.startswith(SEMOSS_PREFIX)}
            shown = {bare: name for bare, name in shown.items() if bare in theirs}
        close = difflib.get_close_matches(_bare(text), sorted(shown), n=3, cutoff=_NEAR)
        return tuple(shown[name] for name in close)

    def _add(self, alias: Alias) -> bool:
        owner = self._aliases.setdefault((alias.group, alias.name), alias)
        if owner is not alias:
            self._report(alias, f"{alias.name} is already provided by {owner.distribution}", "uninstall one")
            return False
        if alias.group in (ENGINES, MODELS):
            self._folded.setdefault(alias.name.casefold(), alias)
        return True


def _bare(name: str) -> str:
    """A class's name without what the names of all of SEMOSS's function engines end with."""
    return name.rpartition(".")[2].casefold().removesuffix("functionengine")


def _broken(alias: Alias, message: str, hint: str) -> ConfigError:
    text = f"the plugin {alias.distribution} that provides {alias.name} {message}"
    return ConfigError(text, hint=hint, reason="plugin-broken")


def _is_engine_class(loaded: Any, group: str) -> TypeGuard[EngineClass]:
    return inspect.isclass(loaded) and not _missing(loaded, group)


def _missing(loaded: Any, group: str) -> Sequence[str]:
    contract = _MODEL_CONTRACT if group == MODELS else _CONTRACT
    return [name for name in contract if not hasattr(loaded, name)]


def _what_is_missing(loaded: Any, group: str) -> str:
    if not inspect.isclass(loaded):
        return f"is not an engine class but a {type(loaded).__name__}"
    return f"is not an engine class: {loaded.__name__} lacks {', '.join(_missing(loaded, group))}"


__all__ = [
    "CLASS_RUNNER",
    "COMMANDS",
    "ENGINES",
    "GROUPS",
    "HOOKS",
    "MODELS",
    "Alias",
    "DottedClass",
    "EngineClass",
    "PluginProblem",
    "PluginRegistry",
    "Registered",
    "Resolution",
    "Unsupported",
    "describe",
]
