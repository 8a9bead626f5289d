"""``ENGINE_CLASS = LocalPython``: one function of a Python script, run in a worker process."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from enginehost.config import BadValue, Code
from enginehost.engine import Call, EngineContext, Function, RunMode
from enginehost.errors import ConfigError, EngineUnavailable
from enginehost.tracebacks import place_of
from enginehost_engines.init_code import NAME as INIT_KEY
from enginehost_engines.init_code import init_commands, init_trees
from enginehost_engines.interpreters import HOST_INTERPRETER, Interpreter, check_interpreter, find_interpreter
from enginehost_engines.python_declared import Script, declared_functions, is_complete
from enginehost_engines.python_neighbours import neighbours
from enginehost_engines.python_source import bound_names
from enginehost_engines.script_file import find_script, read_script
from enginehost_engines.script_function import ScriptFunction
from enginehost_engines.worker.client import WorkerClient
from enginehost_engines.worker.failures import not_loadable
from enginehost_engines.worker.group import RETRY_ALONE_SECONDS
from enginehost_engines.worker.spec import WorkerSpec
from enginehost_engines.worker.targets import find_function, run_init, run_script
from enginehost_engines.worker_engine import WorkerEngine
from enginehost_engines.worker_keys import WorkerKeys

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

_numbers = itertools.count(1)
_NO_CODE = Code()

_STARTS_AHEAD = "python_workers"
_AHEAD_SECONDS = 0.25
"""How long workers that no call waits for let the rest of the host's start go first."""


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


class LocalPythonConfig(WorkerKeys):
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
        default="",
        description="The function in the script, where it is not named like FUNCTION_NAME; `*` for every"
        " public function of the script.",
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
    python_venv: str = Field(
        default="",
        description="The Python that runs the script: the folder of a virtual environment, or an interpreter,"
        " relative to the smss file. Absent: the host's own.",
    )
    python_requirements: list[str] | str = Field(
        default="",
        description="What the script needs: a requirements file, relative to the smss file, or a JSON list"
        " of requirements. An environment with that and nothing else is built once.",
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
        " `async def`, over how many processes its calls are spread. Where the key is there, they are started"
        " when the engine opens, as far as there is room.",
    )


class LocalPythonEngine(WorkerEngine):
    """Runs ``f(**arguments)``.

    The script runs once in each process, at the first call; its globals live as long as that process. A
    plain ``def`` runs alone in a process of those that load the same script in the same way, and can be
    killed. The calls of an ``async def`` share a process that no other engine uses.
    """

    config_model = LocalPythonConfig
    config: LocalPythonConfig
    name_key: ClassVar[str] = "PYTHON_FUNCTION_NAME"
    completes_signature: ClassVar[bool] = True

    def __new__(cls, context: EngineContext, config: LocalPythonConfig) -> LocalPythonEngine:
        """An engine of the class that runs it where ``PYTHON_ISOLATION`` says."""
        if config.python_isolation == "none":
            return object.__new__(InHostPythonEngine)
        if config.python_requirements:
            from enginehost_engines.built_python import BuiltPythonEngine

            return object.__new__(BuiltPythonEngine)
        if context.reloading and cls is LocalPythonEngine:
            return object.__new__(ReplacingPythonEngine)
        ahead = _STARTS_AHEAD in config.model_fields_set and cls is LocalPythonEngine
        return object.__new__(AheadPythonEngine if ahead else cls)

    def __init__(self, context: EngineContext, config: LocalPythonConfig) -> None:
        super().__init__(context, config)
        self._script, self._folders = find_script(context, config.python_script_path, config.python_file_name)
        key = "PYTHON_SCRIPT_PATH" if config.python_script_path else "PYTHON_FILE_NAME"
        source = read_script(self._script, key)
        self._text = source.text
        self._interpreter = _interpreter(context, config)
        name, made = config.python_function_name, _names_of_init(config)
        whole = is_complete(context, name)
        beside = () if whole else neighbours(source, self._folders)
        self._described_by = tuple(one.file for one in beside)
        script = Script(self._script.name, source, beside, made)
        declared = declared_functions(context, script, name)
        self._functions = tuple(ScriptFunction(self, one) for one in declared)
        self._clients: dict[bool, WorkerClient] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._rechecking: asyncio.Task[None] | None = None
        self._is_closed = False

    def own_files(self) -> Sequence[Path]:
        """The script, what else its signatures were read from, and what tells of another interpreter."""
        further = self._interpreter.files if self._interpreter is not HOST_INTERPRETER else ()
        return (self._script, *self._described_by, *further)

    def functions(self) -> Iterable[Function]:
        """The function that the file names, or every public one."""
        return [self._function(one, one.stream if one.mode.streams else one.call) for one in self._functions]

    async def close(self) -> None:
        """End the processes."""
        self._is_closed = True
        for task in (self._preparing, self._rechecking):
            if task is not None:
                task.cancel()
        clients, self._clients = self._clients, None
        for client in clients.values() if clients else ():
            await client.close()

    def execute(self, parameters: dict[str, Any]) -> Any:
        """Not the way in: :meth:`functions` has it."""
        raise NotImplementedError("call the function that functions() gives")

    def _function(self, one: ScriptFunction, run: Any, mode: RunMode | None = None) -> Function:
        declared = one.declared
        here = RunMode.ASYNC_STREAM if one.mode.streams else RunMode.ASYNC
        made = self.context.function(run, mode or here, **declared.fields)
        return made if made.bind == declared.bind else replace(made, bind=declared.bind)

    async def connected(self, *, concurrent: bool) -> WorkerClient:
        """The way to the workers, made at the first call: most engines of a large folder wait for it long."""
        if self._interpreter is not HOST_INTERPRETER:
            await self._check_interpreter()
        if self._is_closed:
            raise EngineUnavailable("the engine was closed", state="closing")
        if self._clients is None:
            self._clients = {}
        if concurrent not in self._clients:
            self._clients[concurrent] = self._connect(concurrent)
        return self._clients[concurrent]

    async def learned(self, client: WorkerClient, name: str) -> RunMode:
        """How the loaded code runs a function."""
        return await self._mode_of(client, name)

    async def moved(self, client: WorkerClient) -> None:
        """Tell that a function is another than its source let think, and let go of what it used alone."""
        self.context.changed()
        if self._clients is not None and not any(one.uses(client) for one in self._functions):
            self._clients = {kind: kept for kind, kept in self._clients.items() if kept is not client}
            await client.close()

    async def _check_interpreter(self) -> None:
        try:
            await check_interpreter(self._interpreter)
        except EngineUnavailable as error:
            self.not_loaded(error, ())
            if self._rechecking is None:
                self._rechecking = asyncio.create_task(self._recheck(), name="enginehost-python-recheck")
            raise

    async def _recheck(self) -> None:
        """Try the interpreter again, without a call: it may be put right where no file of ours changes."""
        seconds, longest = RETRY_ALONE_SECONDS
        while True:
            await asyncio.sleep(seconds)
            seconds = min(seconds * 2, longest)
            with suppress(EngineUnavailable):
                await check_interpreter(self._interpreter)
                self._rechecking = None
                self.loaded(None, ())
                return

    def _connect(self, concurrent: bool) -> WorkerClient:
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
            concurrent=concurrent,
            idle=minutes * 60 if minutes > 0 else None,
            interpreter=str(self._interpreter.path),
            limits=self.config.worker_limits(),
        )
        return WorkerClient(
            spec,
            self.context.log,
            self,
            size=self.config.python_workers,
            most=self.context.access.max_workers,
        )

    def _start_ahead(self) -> None:
        """Have processes ready before the first call, where the file asks for it; nobody waits for them."""
        if _STARTS_AHEAD in self.config.model_fields_set:
            self._preparing = asyncio.get_running_loop().create_task(self._prepare())

    async def _prepare(self) -> None:
        await asyncio.sleep(_AHEAD_SECONDS)
        with suppress(EngineUnavailable):  # its interpreter; the engine was told
            for client in {await one.connected() for one in self._functions}:
                client.prepare()

    async def _try(self) -> None:
        """Load the script and find a function. Raises ``EngineUnavailable``."""
        one = self._functions[0]
        mode = await self._checked_mode(await one.connected(), one.declared.name)
        if mode is not None and one.is_guess:
            await one.take_mode(mode)


class AheadPythonEngine(LocalPythonEngine):
    """One whose file says how many processes it wants: they are started when it opens."""

    async def open(self) -> None:
        """Begin to start them."""
        self._start_ahead()


class ReplacingPythonEngine(LocalPythonEngine):
    """One that is to replace another: its script is loaded in a worker before it does."""

    async def open(self) -> None:
        """Load the script and find the function. Raises ``EngineUnavailable``."""
        await self._try()
        self._start_ahead()


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
        if config.python_venv or config.python_requirements:
            key = "PYTHON_VENV" if config.python_venv else "PYTHON_REQUIREMENTS"
            raise ConfigError(
                f"{key} has another Python run the script, and PYTHON_ISOLATION = none the host's",
                key="PYTHON_ISOLATION",
                hint="leave one of them out",
                reason="contradiction",
            )
        for key in ("PYTHON_MEMORY_MB", "PYTHON_MAX_CALLS", "PYTHON_RECYCLE_MB", "PYTHON_WORKERS"):
            if getattr(config, key.lower()) and key.lower() in config.model_fields_set:
                context.warn(key, "no-effect", f"{key} is about worker processes; PYTHON_ISOLATION is none")
        self._module: ModuleType | None = None

    def functions(self) -> Iterable[Function]:
        """The function that the file names, or every public one."""
        return [self._function(one, self._runner(one), one.mode) for one in self._functions]

    async def open(self) -> None:
        """Load the script."""
        if self._module is None:
            for folder in self._folders:
                if folder not in sys.path:
                    sys.path.append(folder)
            try:
                self._module = await asyncio.to_thread(self._load)
                for one in self._functions:
                    find_function(self._module, one.declared.name)
            except (Exception, SystemExit) as error:  # a script may raise anything
                raise not_loadable(error, str(place_of(error, self._folders) or "")) from error

    async def close(self) -> None:
        """Forget the module."""
        if self._module is not None:
            sys.modules.pop(self._module.__name__, None)
            self._module = None

    def _load(self) -> ModuleType:
        module = run_script(self._script, self._text, f"_enginehost_script_{next(_numbers)}")
        run_init(module, self.config.init_function_engine.text, self.config.init_function_engine.texts)
        return module

    def _runner(self, one: ScriptFunction) -> Any:
        name, asks = one.declared.name, one.declared
        function = find_function(self._module, name) if self._module is not None else None

        def run(arguments: dict[str, Any], call: Call) -> Any:
            if function is None:
                raise EngineUnavailable("the script is not loaded", state="loading")
            about = asks.about(call.function)
            if about is None:
                return function(**arguments)
            from enginehost_engines.worker.arguments import call_with

            return call_with(function, arguments, **about)

        return run


def _interpreter(context: EngineContext, config: LocalPythonConfig) -> Interpreter:
    return find_interpreter(config.python_venv, context.folder) if config.python_venv else HOST_INTERPRETER


def _names_of_init(config: LocalPythonConfig) -> Collection[str]:
    """The names that ``INIT_FUNCTION_ENGINE`` binds."""
    init = config.init_function_engine
    return set[str]().union(*map(bound_names, init_trees(init.text))) if init else ()
