"""The engine that runs a program for each call."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from enginehost.engine import AbstractFunctionEngine, Call, EngineContext, Function, RunMode
from enginehost.errors import (
    ConfigError,
    EngineHostError,
    EngineUnavailable,
    InvalidArguments,
    TooLarge,
)
from enginehost.values import encode
from enginehost_engines.command.code import values_in_code
from enginehost_engines.command.config import CommandConfig
from enginehost_engines.command.failures import failed, unusable
from enginehost_engines.command.outputs import SHAPES, Lines
from enginehost_engines.command.program import Order, Program
from enginehost_engines.command.template import Template, parse, text_of
from enginehost_engines.command.turns import take, turns
from enginehost_engines.command.words import CommandLine, read_command

RETRY_SECONDS = 2.0, 300.0
"""How long until a program that has gone is looked for again; twice as long each time, up to the second."""

_SECRET_WORDS = ("password", "passwd", "secret", "token", "key", "credential")
_HARMLESS = ("integer", "number", "boolean", "null")
"""Types whose values say nothing in a script but themselves."""
_OF_ANY_PROGRAM = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class CommandEngine(AbstractFunctionEngine):
    """Runs a program of this machine, once for each call, without a shell.

    It runs in a process group of its own, which is killed when the call ends in whatever way.
    """

    config_model = CommandConfig
    config: CommandConfig

    def __init__(self, context: EngineContext, config: CommandConfig) -> None:
        super().__init__(context, config)
        self._program, groups = read_command(config.command)
        self._line = CommandLine(groups, frozenset(config.command_dashed))
        self._stdin = _stdin_template(context, config)
        self._folder = _folder(context, config)
        self._env = _environment(config)
        self._running: set[Program] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._path = ""
        self._check_names()
        self._check_code()
        for name, value in config.command_env.items():
            if value and any(word in name.casefold() for word in _SECRET_WORDS):
                context.conceal(value)

    # its life

    async def open(self) -> None:
        """Find the program. Raises ``EngineUnavailable`` where there is none."""
        self._path = self._found()

    async def close(self) -> None:
        """End what still runs."""
        if self._retry is not None:
            self._retry.cancel()
        running = [program.gone for program in self._running]
        for program in tuple(self._running):
            program.abandon()
        if running:
            await asyncio.wait(running)

    def watched(self) -> Sequence[Path]:
        """The program's file, where the smss file says which it is."""
        return (self._own_path(),) if os.sep in self._program else ()

    def functions(self) -> Iterable[Function]:
        """The one function."""
        if self.config.command_output == "lines":
            return (self.context.function(self._lines, RunMode.ASYNC_STREAM),)
        return (self.context.function(self._result, RunMode.ASYNC),)

    def execute(self, parameters: dict[str, Any]) -> Any:
        """Not the way in: :meth:`functions` has it."""
        raise NotImplementedError("call the function that functions() gives")

    # calls

    async def _result(self, arguments: dict[str, Any], call: Call) -> Any:
        limit, pieces, size = self.config.command_max_output_bytes, list[bytes](), 0
        async with self._run(arguments, call) as program:
            while piece := await program.printed.read():
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    raise TooLarge(f"the output of {self._program}", limit=limit)
            await self._check_end(program)
            return SHAPES[self.config.command_output](b"".join(pieces), self._program)

    async def _lines(self, arguments: dict[str, Any], call: Call) -> AsyncGenerator[str, None]:
        lines = Lines(self._program, self.config.command_max_output_bytes)
        async with self._run(arguments, call) as program:
            while piece := await program.printed.read():
                for line in lines.feed(piece):
                    yield line
            for line in lines.end():
                yield line
            await self._check_end(program)

    @asynccontextmanager
    async def _run(self, arguments: dict[str, Any], call: Call) -> AsyncGenerator[Program, None]:
        """The program while it runs; afterwards nothing of it does. Errors name the function."""
        try:
            words = self._line.words(arguments)
            stdin = self._stdin_of(arguments)
            most = self.context.access.max_programs
            semaphore = turns(most)
            await take(semaphore, most)
            program = Program(self.context.log)
            try:
                await self._start(program, words, stdin)
                yield program
            finally:
                program.abandon()
                semaphore.release()
        except EngineHostError as error:
            error.message = f"{call.function}: {error.message}"
            error.args = (error.message, *error.args[1:])
            raise

    async def _start(self, program: Program, words: Sequence[str], stdin: bytes | None) -> None:
        order = Order(self._path, [self._program, *words], self._folder, self._env, stdin)
        self._running.add(program)
        program.gone.add_done_callback(lambda _: self._running.discard(program))
        try:
            await program.start(order)
        except OSError as error:
            raise self._cannot_start(error) from error

    async def _check_end(self, program: Program) -> None:
        status = await asyncio.shield(program.ended)
        if status not in self.config.command_success_codes:
            await asyncio.shield(program.complaints.over)
            raise failed(self._program, status, program.complaints.text, self.context.redact)

    def _stdin_of(self, arguments: Mapping[str, Any]) -> bytes | None:
        template = self._stdin
        if template is None:
            return None if self.config.command_stdin.casefold() == "none" else encode(arguments)
        present = {name: arguments[name] for name in template.names if arguments.get(name) is not None}
        only = present.get(template.only or "")
        if isinstance(only, bytes):
            return only
        texts = {name: text_of(name, value) for name, value in present.items()}
        return template.filled(texts).encode()

    # the program

    def _found(self) -> str:
        """The program's file. Raises ``EngineUnavailable``."""
        if os.sep in self._program:
            path = str(self._own_path())
            found, there = shutil.which(path), Path(path).is_file()
        else:
            path = self._program
            search = self._env.get("PATH", os.defpath)
            found, there = shutil.which(path, path=search), _is_file_on(search, path)
        if found is None and os.sep in self._program and os.path.exists(path) and not there:  # noqa: PTH110
            raise unusable(self._program, OSError(errno.EINVAL, ""))
        if found is None:
            kind = PermissionError if there else FileNotFoundError
            raise unusable(self._program, kind(errno.EACCES if there else errno.ENOENT, ""))
        return os.path.abspath(found)  # noqa: PTH100 - a link stays one: some programs look at their name

    def _own_path(self) -> Path:
        return Path(os.path.normpath(self.context.folder.absolute() / self._program))

    def _cannot_start(self, error: OSError) -> EngineHostError:
        """The error for the call; where it is no matter of this call alone, the engine is failed by it."""
        if error.errno == errno.E2BIG:
            message = "the arguments are too long for a command line: COMMAND_STDIN takes more"
            return InvalidArguments(message)
        if not self._folder.is_dir():
            reason = "the folder of COMMAND_FOLDER is not there any more"
            unavailable = EngineUnavailable(reason, state="failed", reason=reason)
        else:
            unavailable = unusable(self._program, error)
        if error.errno in _OF_ANY_PROGRAM:
            unavailable.detail["state"] = "ready"
        else:
            self.context.failed(unavailable.message, error)
            self._look_again(RETRY_SECONDS[0])
        return unavailable

    def _look_again(self, seconds: float) -> None:
        """Serve again when the program is back."""
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(seconds, self._look, seconds)

    def _look(self, seconds: float) -> None:
        self._retry = None
        try:
            self._path = self._found()
        except EngineUnavailable:
            self._look_again(min(2 * seconds, RETRY_SECONDS[1]))
        else:
            if self._folder.is_dir():
                self.context.changed()
            else:
                self._look_again(min(2 * seconds, RETRY_SECONDS[1]))

    # what the file says

    def _check_names(self) -> None:
        """Every place has its parameter, and every parameter a place."""
        signature = self.context.signature
        declared = [*(signature.properties if signature else ()), *self.context.bind]
        in_stdin = self._stdin.names if self._stdin is not None else []
        in_line = [name for group in self._line.groups for name in group.names]
        for key, names in (
            ("COMMAND", in_line),
            ("COMMAND_STDIN", in_stdin),
            ("COMMAND_DASHED", self.config.command_dashed),
        ):
            for name in names:
                if name not in declared:
                    raise _unknown(key, name, declared)
        taken = {*in_line, *in_stdin}
        unused = [name for name in declared if name not in taken]
        if unused and self.config.command_stdin.casefold() != "json":
            message = f"the program does not get {', '.join(unused)}"
            hint = f'write "{{{unused[0]}}}" into COMMAND, or COMMAND_STDIN = json'
            self.context.warn("COMMAND", "unused-parameter", message, hint)

    def _check_code(self) -> None:
        """A caller's text should be no part of a script: it could say anything in it."""
        found = values_in_code(self._program, self._line.groups, self._stdin)
        free = [name for name in found.names if self._is_free_text(name)] if found else []
        if found and free:
            message = f"what a caller gives for {', '.join(free)} is run as code by {found.program}"
            self.context.warn("COMMAND", "value-as-code", message, found.hint)

    def _is_free_text(self, name: str) -> bool:
        if name in self.context.bind:
            return str(self.context.bind[name]).startswith("$caller.")
        signature = self.context.signature
        schema = signature.properties.get(name) if signature else None
        if not isinstance(schema, Mapping):
            return True
        return "enum" not in schema and "const" not in schema and schema.get("type") not in _HARMLESS


def _unknown(key: str, name: str, declared: Sequence[str]) -> ConfigError:
    near = get_close_matches(name, declared, n=1)
    hint = f"did you mean {near[0]}?" if near else "declare it in FUNCTION_PARAMETERS"
    if key != "COMMAND_DASHED":
        hint += f" (the text {{{name}}} itself is written {{{{{name}}}}})"
    message = f"{key}: there is no parameter {name}"
    return ConfigError(message, key=key, hint=hint, reason="unknown-parameter")


def _stdin_template(context: EngineContext, config: CommandConfig) -> Template | None:
    if config.command_stdin.casefold() in ("none", "json"):
        return None
    # as the file has it: the model's text is stripped, and a line break at its end means something here
    return parse(context.properties.get("COMMAND_STDIN", config.command_stdin))


def _folder(context: EngineContext, config: CommandConfig) -> Path:
    folder = (context.folder / config.command_folder).absolute()
    if not folder.is_dir():
        hint = "the path is relative to the smss file"
        message = f"COMMAND_FOLDER: there is no folder {config.command_folder}"
        raise ConfigError(message, key="COMMAND_FOLDER", hint=hint, reason="folder-missing")
    return folder


def _environment(config: CommandConfig) -> Mapping[str, str]:
    """The host's variables without its own settings, and those of the file."""
    inherited = {key: text for key, text in os.environ.items() if not key.startswith("ENGINEHOST_")}
    given: dict[str, str | None] = inherited | config.command_env
    return {key: text for key, text in given.items() if text is not None}


def _is_file_on(search: str, name: str) -> bool:
    places = (os.path.join(folder, name) for folder in search.split(os.pathsep) if folder)  # noqa: PTH118
    return any(map(os.path.isfile, places))  # not Path's: it raises for folders that may not be searched
