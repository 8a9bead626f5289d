"""What a worker calls: the functions of a script, a reactor, an engine class."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import linecache
import os
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from enginehost_engines.worker.calls import ASKED, enter


class Target:
    """Something loaded whose functions are called by name.

    ``on_change`` is to be called, on any thread, when :meth:`info` changed.
    """

    on_change: Callable[[], None] | None = None

    async def open(self) -> None:
        """Make ready (in workers that serve calls concurrently)."""

    async def close(self) -> None:
        """Let go (in workers that serve calls concurrently)."""

    def info(self) -> Any:
        """What the host learns of it once it is loaded."""
        return None

    def is_sync(self, function: str) -> bool:
        """Whether the function is a plain ``def``, which must not run on an event loop."""
        return False

    def describe(self, function: str) -> str:
        """The function's run mode. Raises ``NameError`` where there is no such function."""
        raise NotImplementedError

    def invoke(self, function: str, arguments: dict[str, Any], call: Mapping[str, Any] | None) -> Any:
        """Call a function: its result, an awaitable or a (async) generator."""
        raise NotImplementedError


def load(order: Mapping[str, Any]) -> Target:
    """Load what the host ordered. Raises whatever the user's code raises."""
    sys.path[:0] = [folder for folder in order["folders"] if folder not in sys.path]
    kind = order["kind"]
    if kind == "script":
        return Script(Path(order["script"]), order["text"], order["init"], order["texts"])
    if kind == "reactor":
        return ReactorClass(find_class(order["class"]))
    from enginehost_engines.worker.engine_target import EngineClass

    return EngineClass(find_class(order["class"]), order)


class Script(Target):
    """A script, executed once; its globals live as long as the worker."""

    def __init__(self, script: Path, text: bytes, init: str, texts: Mapping[str, str]) -> None:
        os.chdir(script.parent)
        self._text = text
        self.module = run_script(script, text, module_name(script))
        run_init(self.module, init, texts)

    def describe(self, function: str) -> str:
        """By what the function is now that the script has run."""
        found = find_function(self.module, function)
        mode = _mode(found)
        # an instance that can be called looks like a plain function
        return _mode(type(found).__call__) if mode == "sync" else mode

    def invoke(self, function: str, arguments: dict[str, Any], call: Mapping[str, Any] | None) -> Any:
        """Call the script's function; ``call`` says what its parameters ask for beyond JSON."""
        found = find_function(self.module, function)
        asked = None
        if call is not None and ASKED in call:
            call = dict(call)
            asked = call.pop(ASKED)
        enter(function, asked, self._text)
        if call:
            from enginehost_engines.worker.arguments import call_with

            return call_with(found, arguments, **call)
        return found(**arguments)


def _mode(function: Any) -> str:
    """The word of the run mode, which the host's own code tells on newer Pythons only."""
    if inspect.isasyncgenfunction(function):
        return "async_stream"
    if inspect.isgeneratorfunction(function):
        return "sync_stream"
    return "async" if inspect.iscoroutinefunction(function) else "sync"


def module_name(script: Path) -> str:
    """The name a script's module gets: its stem, unless a module has it already."""
    name = script.stem
    return name if name.isidentifier() and name not in sys.modules else f"_script_{name}"


class _AsRead(SourceFileLoader):
    """Runs a script as the host read it, whatever the file holds by now; tracebacks show those lines too."""

    def __init__(self, name: str, path: str, text: bytes) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._text, self.path)

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._text)


def run_script(script: Path, text: bytes, name: str) -> ModuleType:
    """Execute ``text``, the content of the file ``script``, as module ``name``."""
    path = str(script)
    spec = importlib.util.spec_from_file_location(name, path, loader=_AsRead(name, path, text))
    if spec is None or spec.loader is None:
        raise ImportError(f"{script.name} is no Python script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    linecache.lazycache(path, module.__dict__)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def run_init(module: ModuleType, init: str, texts: Mapping[str, str]) -> None:
    """Run a file's ``INIT_FUNCTION_ENGINE`` in the globals of its script."""
    if not init:
        return
    from enginehost_engines.init_code import init_commands

    for command in init_commands(init, texts):
        exec(command, module.__dict__)  # noqa: S102 - the file's own commands, as SEMOSS defines them


def find_function(module: ModuleType, name: str) -> Callable[..., Any]:
    """The function ``name`` of a script's module."""
    function = getattr(module, name, None)
    if callable(function):
        return function
    raise NameError(f"the script has no function {name}", name=name)


class ReactorClass(Target):
    """A reactor class; each call runs on an instance of its own."""

    def __init__(self, reactor: type[Any]) -> None:
        from enginehost.reactor import describe

        self._reactor = reactor
        self._nouns = describe(reactor)

    def info(self) -> Any:
        """The nouns it takes."""
        return self._nouns

    def describe(self, function: str) -> str:
        """How ``execute`` runs."""
        from enginehost.engine import run_mode

        return str(run_mode(self._reactor.execute))

    def invoke(self, function: str, arguments: dict[str, Any], call: Mapping[str, Any] | None) -> Any:
        """Run the reactor on the arguments as nouns."""
        from enginehost.reactor import run

        return run(self._reactor, arguments)


def find_class(path: str) -> type[Any]:
    """The class at ``package.module:Class`` or ``package.module.Class``."""
    module, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not isinstance(found, type):
        raise TypeError(f"{path} is not a class")
    return found
