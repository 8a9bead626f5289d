"""``ENGINE_CLASS = LocalPython``: one function of a Python script, run in a worker process."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from enginehost.config import BadValue, Code, EngineConfig
from enginehost.engine import Call, EngineContext, Function, RunMode
from enginehost.errors import ConfigError
from enginehost.tracebacks import place_of
from enginehost_engines.absence import no_file
from enginehost_engines.init_code import NAME as INIT_KEY
from enginehost_engines.init_code import init_commands, init_trees
from enginehost_engines.parameter_check import mismatches
from enginehost_engines.python_source import PythonSource, bound_names, read_source
from enginehost_engines.worker.client import WorkerClient
from enginehost_engines.worker.failures import not_loadable
from enginehost_engines.worker.process import WorkerSpec
from enginehost_engines.worker.targets import find_function, run_init, run_script
from enginehost_engines.worker_engine import WorkerEngine

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

_SEMOSS_FOLDERS = ("", "app_root/version/assets", "py")
"""Where in an engine's own folder SEMOSS keeps its scripts, in the order of search."""

_numbers = itertools.count(1)
_NO_CODE = Code()


def _no_code() -> Code:
    return _NO_CODE


def _as_code(value: Any) -> Any:
    return Code(value) if isinstance(value, str) else value


def _check_init(init: Code) -> Code:
    """Refuse what is not Python, whatever else is wrong with the file."""
    try:
        init_commands(init.text, init.texts)
    except (SyntaxError, ValueError) as error:
        hint = "write statements with ; between them, such as a = 1; b = 2"
        raise BadValue(f"{INIT_KEY} is not Python: {error}", hint=hint, reason="script-syntax") from error
    return init


class LocalPythonConfig(EngineConfig):
    """The smss keys of LocalPython."""

    python_script_path: str = Field(
        default="", description="The script, relative to the smss file: `scripts/math_tools.py`."
    )
    python_file_name: str = Field(
        default="",
        description="The script as SEMOSS names it: in the folder `<alias>__<id>` beside the smss file, in"
        " its `app_root/version/assets`, or in its `py`.",
    )
    python_function_name: str = Field(
        default="", description="The function in the script, where it is not named like FUNCTION_NAME."
    )
    init_function_engine: Annotated[Code, BeforeValidator(_as_code), AfterValidator(_check_init)] = Field(
        default_factory=_no_code,  # pydantic would copy a default for each of thousands of files
        description="Python statements that run once after the script, `;` between them.",
    )
    idle_timeout: float = Field(
        default=30, description="Minutes without a call after which the process ends; 0 is never."
    )
    logger_level: LogLevel = Field(
        default="WARNING", description="From which level on the script's log records reach the host's log."
    )
    python_isolation: Literal["process", "none"] = Field(
        default="process",
        description="`none` runs the script inside the host, where the host's settings allow it.",
    )
    python_workers: int = Field(
        default=1,
        ge=1,
        le=64,
        description="How many sync calls of this engine run in parallel, each in a process of its own; for"
        " `async def`, over how many processes its calls are spread.",
    )


class LocalPythonEngine(WorkerEngine):
    """Runs ``f(**arguments)``.

    The script runs once in each process, at the first call; its globals live as long as that process. A
    plain ``def`` runs alone in a process of those that load the same script in the same way, and can be
    killed. The calls of an ``async def`` share a process that no other engine uses.
    """

    config_model = LocalPythonConfig
    config: LocalPythonConfig

    def __new__(cls, context: EngineContext, config: LocalPythonConfig) -> LocalPythonEngine:
        """An engine of the class that runs it where ``PYTHON_ISOLATION`` says."""
        if config.python_isolation == "none":
            return object.__new__(InHostPythonEngine)
        return object.__new__(
            ReplacingPythonEngine if context.reloading and cls is LocalPythonEngine else cls
        )

    def __init__(self, context: EngineContext, config: LocalPythonConfig) -> None:
        super().__init__(context, config)
        self._script, self._folders = _find_script(context, config)
        self._name = config.python_function_name or (context.signature.name if context.signature else "")
        source = _read(self._script, config)
        self._text = source.text
        made = _names_of_init(config)
        self._mode = _find_mode(source, self._name, made, self._script, config)
        self._is_guess = self._name in made or self._name not in source.parameters
        """Whether only the loaded code can tell how the function runs."""
        if not self._is_guess:
            for message, hint in mismatches(self._name, source.parameters[self._name], context):
                context.warn("FUNCTION_PARAMETERS", "signature-mismatch", message, hint)
        self._client: WorkerClient | None = None
        self._learning: asyncio.Lock | None = None

    def own_files(self) -> Sequence[Path]:
        """The script."""
        return (self._script,)

    def functions(self) -> Iterable[Function]:
        """The one function."""
        if self._mode.streams:
            return (self.context.function(self._stream_in_worker, RunMode.ASYNC_STREAM),)
        return (self.context.function(self._call_in_worker, RunMode.ASYNC),)

    async def close(self) -> None:
        """End the process."""
        if self._client is not None:
            await self._client.close()

    def execute(self, parameters: dict[str, Any]) -> Any:
        """Not the way in: :meth:`functions` has it."""
        raise NotImplementedError("call the function that functions() gives")

    async def _call_in_worker(self, arguments: dict[str, Any], call: Call) -> Any:
        if self._is_guess:
            await self._learn_mode(call.function)
            if self._mode.streams:
                return [item async for item in self._stream_in_worker(arguments, call)]
        return await (self._client or self._connect()).call(self._name, arguments, call.function)

    async def _stream_in_worker(self, arguments: dict[str, Any], call: Call) -> AsyncGenerator[Any, None]:
        if self._is_guess:
            await self._learn_mode(call.function)
        items = (self._client or self._connect()).stream(self._name, arguments, call.function)
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()

    async def _learn_mode(self, name: str) -> None:
        """Ask the loaded code how the function runs, once."""
        self._learning = self._learning or asyncio.Lock()
        async with self._learning:  # no call may run while the workers are exchanged
            if self._is_guess:
                await self._take_mode(await self._mode_of(self._client or self._connect(), self._name))

    async def _take_mode(self, found: RunMode) -> None:
        self._is_guess = False
        if found is RunMode.SYNC and self._mode is RunMode.ASYNC:
            return  # a decorator's wrapper that hands on the coroutine
        if found is not self._mode:
            self._mode, client, self._client = found, self._client, None
            self.context.changed()
            if client is not None:
                await client.close()

    def _connect(self) -> WorkerClient:
        """The way to the workers, made at the first call: most engines of a large folder wait for it long."""
        init, minutes = self.config.init_function_engine, self.config.idle_timeout
        order = {
            "kind": "script",
            "script": str(self._script),
            "text": self._text,
            "folders": self._folders,
            "root": os.path.realpath(self.context.folder),
            "init": init.text,
            "texts": dict(init.texts),
            "level": self.config.logger_level,
        }
        spec = WorkerSpec.of(
            order,
            str(self._script),
            concurrent=self._mode in (RunMode.ASYNC, RunMode.ASYNC_STREAM),
            idle=minutes * 60 if minutes > 0 else None,
        )
        self._client = WorkerClient(
            spec,
            self.context.log,
            self,
            size=self.config.python_workers,
            most=self.context.access.max_workers,
        )
        return self._client


class ReplacingPythonEngine(LocalPythonEngine):
    """One that is to replace another: its script is loaded in a worker before it does."""

    async def open(self) -> None:
        """Load the script and find the function. Raises ``EngineUnavailable``."""
        mode = await self._checked_mode(self._client or self._connect(), self._name)
        if mode is not None and self._is_guess:
            await self._take_mode(mode)


class InHostPythonEngine(LocalPythonEngine):
    """``PYTHON_ISOLATION = none``: the script runs inside the host, where its settings allow that."""

    def __init__(self, context: EngineContext, config: LocalPythonConfig) -> None:
        super().__init__(context, config)
        if not context.access.in_process_python:
            raise ConfigError(
                "PYTHON_ISOLATION = none is not allowed here",
                key="PYTHON_ISOLATION",
                hint="the host's setting in_process_python allows it; `process` always works",
                reason="not-allowed",
            )
        self._module: ModuleType | None = None
        self._function: Any = None

    def functions(self) -> Iterable[Function]:
        """The one function."""
        return (self.context.function(self._run_here, self._mode),)

    async def open(self) -> None:
        """Load the script."""
        if self._module is None:
            for folder in self._folders:
                if folder not in sys.path:
                    sys.path.append(folder)
            try:
                self._module = await asyncio.to_thread(self._load)
                self._function = find_function(self._module, self._name)
            except (Exception, SystemExit) as error:  # a script may raise anything
                raise not_loadable(error, str(place_of(error, self._folders) or "")) from error

    async def close(self) -> None:
        """Forget the module."""
        if self._module is not None:
            sys.modules.pop(self._module.__name__, None)
            self._module = self._function = None

    def _load(self) -> ModuleType:
        module = run_script(self._script, self._text, f"_enginehost_script_{next(_numbers)}")
        run_init(module, self.config.init_function_engine.text, self.config.init_function_engine.texts)
        return module

    def _run_here(self, arguments: dict[str, Any], call: Call) -> Any:
        return self._function(**arguments)


def _find_script(context: EngineContext, config: LocalPythonConfig) -> tuple[Path, list[str]]:
    """The script and the folders from which it may import, its own first."""
    if config.python_script_path:
        # plain text: ten thousand files are loaded in a second, and pathlib takes three times as long
        script = os.path.realpath(os.path.join(context.folder, config.python_script_path))  # noqa: PTH118
        if os.path.isfile(script):  # noqa: PTH113
            return _shared(script), [os.path.dirname(script)]  # noqa: PTH120
        hint = "the path is relative to the smss file"
        raise _no_script("PYTHON_SCRIPT_PATH", no_file(config.python_script_path, script), hint)
    if not config.python_file_name:
        raise ConfigError(
            "the key PYTHON_SCRIPT_PATH is missing",
            key="PYTHON_SCRIPT_PATH",
            hint="name the script, relative to the smss file: PYTHON_SCRIPT_PATH = scripts/name.py",
            reason="missing-key",
        )
    own = context.folder / f"{context.alias}__{context.engine_id}"
    beside = context.path.with_suffix("") if context.path else own
    folders = [base / inner for base in dict.fromkeys((own, beside)) for inner in _SEMOSS_FOLDERS]
    why = no_file(config.python_file_name, "")
    for folder in folders:
        script = (folder / config.python_file_name).resolve()
        if script.is_file():
            places = (str(place.resolve()) for place in folders if place.is_dir())
            return script, list(dict.fromkeys((str(script.parent), *places)))
        if script.exists():
            why = no_file(config.python_file_name, script)
    hint = f"it is looked for in the folder {own.name}, its app_root/version/assets and its py"
    raise _no_script("PYTHON_FILE_NAME", why, hint)


@lru_cache(256)
def _shared(script: str) -> Path:
    """The path as one object for all files that name the script: it keeps its text and its hash."""
    return Path(script)


def _no_script(key: str, why: str, hint: str) -> ConfigError:
    return ConfigError(f"{key}: {why}", key=key, hint=hint, reason="script-missing")


def _script_key(config: LocalPythonConfig) -> str:
    return "PYTHON_SCRIPT_PATH" if config.python_script_path else "PYTHON_FILE_NAME"


def _read(script: Path, config: LocalPythonConfig) -> PythonSource:
    try:
        return read_source(script)
    except ConfigError as error:
        error.key = _script_key(config)
        raise
    except OSError as error:
        text = f"{script.name} cannot be read: {error.strerror}"
        raise ConfigError(text, key=_script_key(config), reason="script-missing") from error


def _find_mode(
    source: PythonSource, name: str, made: Collection[str], script: Path, config: LocalPythonConfig
) -> RunMode:
    """How the function runs; one that the script imports or makes is taken for a plain ``def``."""
    if source.may_have(name) or name in made or "*" in made:
        return source.functions.get(name, RunMode.SYNC)
    near = source.nearest(name)
    raise ConfigError(
        f"{script.name} has no function {name}",
        key="PYTHON_FUNCTION_NAME" if config.python_function_name else "FUNCTION_NAME",
        hint=f"it has {', '.join(near)}; PYTHON_FUNCTION_NAME can name one" if near else "",
        reason="function-missing",
    )


def _names_of_init(config: LocalPythonConfig) -> Collection[str]:
    """The names that ``INIT_FUNCTION_ENGINE`` binds."""
    init = config.init_function_engine
    return set[str]().union(*map(bound_names, init_trees(init.text))) if init else ()
