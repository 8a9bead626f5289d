"""One smss file → one engine: read, interpret, find the class, make the engine, ask for its functions.

Runs on the loader's thread and never raises: what is wrong becomes diagnostics and a reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from enginehost.catalog import EngineRecord
from enginehost.class_choice import warn_of_contradiction
from enginehost.config import Reading, check_keys, read_keys
from enginehost.config_keys import as_written, spelling
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.engine import (
    EngineContext,
    EngineState,
    Function,
    HostAccess,
    IFunctionEngine,
    make_engine,
    no_models,
    no_sessions,
)
from enginehost.errors import ConfigError, EngineHostError
from enginehost.folder import Fingerprint, fingerprint
from enginehost.interpret import Declaration, interpret
from enginehost.known_classes import semoss_reason
from enginehost.local_paths import know_folder
from enginehost.parameters import SignatureParts, read_name, read_signature
from enginehost.plugins import MODELS, DottedClass, EngineClass, PluginRegistry, Unsupported
from enginehost.redaction import Redactor
from enginehost.regular_file import read_regular
from enginehost.safe_text import safe_text, told
from enginehost.secrets import Secrets
from enginehost.settings import HostSettings
from enginehost.signature import UNREAD
from enginehost.substitute import Sources, read_text_file
from enginehost.tracebacks import author_traceback

UNDECLARED_PARAMETER = "undeclared-parameter"
"""The reason of an engine's error that a key names a parameter which the function does not have."""

MAX_FILE_BYTES = 4 * 1024 * 1024
"""A larger smss file is a mistake (a model or an archive with the wrong name)."""

UNSUPPORTED = "unsupported"
"""The code of the finding in a file whose class nobody provides."""


@dataclass(slots=True)
class Loaded:
    """What came of one file. ``engine`` is ``None`` where it cannot serve (see ``record.reason``)."""

    record: EngineRecord
    engine: IFunctionEngine | None = None
    functions: tuple[Function, ...] = ()
    watched: dict[Path, Fingerprint | None] = field(default_factory=dict)
    """Files the engine depends on, as they were when it was made."""
    complete: bool = False
    """Whether all functions there may be, and their tags, are those that the file itself declares."""


Failed = Callable[[EngineRecord, str, BaseException | None], None]
"""Hears, on any thread, of an engine that cannot serve any more, why, and by which exception."""


def _nobody_hears(record: EngineRecord, reason: str, cause: BaseException | None) -> None:
    """The default of a loader's ``failed``."""


Opening = Callable[[Path, str], None]
"""Hears, on any thread, what the engine of a file that is being opened does."""


def _nobody_waits(path: Path, doing: str) -> None:
    """The default of a loader's ``opening``."""


def _has_all(spec: Any) -> str:
    """The default of :attr:`Services.lacks`."""
    return ""


@dataclass(frozen=True, slots=True)
class Services:
    """What of the host itself its engines are given: see :class:`~enginehost.engine.EngineContext`."""

    agents: Callable[[], Awaitable[Any]] = no_sessions
    llm: Callable[..., Any] = no_models
    lacks: Callable[[Any], str] = _has_all

    def given_to(self, context: EngineContext) -> EngineContext:
        """The context of an engine that was made without them."""
        return replace(context, agents=self.agents, llm=self.llm, lacks=self.lacks)


_NO_SERVICES = Services()


class _Warnings:
    """Takes an engine's warnings while it is made; afterwards nothing holds the declaration."""

    __slots__ = ("declaration",)

    def __init__(self, declaration: Declaration) -> None:
        self.declaration: Declaration | None = declaration

    def warn(self, key: str, code: str, message: str, hint: str = "") -> None:
        if self.declaration is not None:
            self.declaration.warning(key, code, message, hint)


class Loader:
    """Makes engines of files.

    ``changed`` is told, on any thread, the file of an engine whose functions changed.
    """

    def __init__(
        self,
        registry: PluginRegistry,
        secrets: Secrets,
        sources: Sources,
        access: HostAccess,
        redact: Redactor,
        changed: Callable[[Path], None],
        failed: Failed = _nobody_hears,
        opening: Opening = _nobody_waits,
        services: Services = _NO_SERVICES,
    ) -> None:
        self._registry = registry
        self._secrets = secrets
        self._sources = sources
        self._access = access
        self._redact = redact
        self._changed = changed
        self._failed = failed
        self._opening = opening
        self._services = services

    def load(self, path: Path, *, reloading: bool = False) -> Loaded | None:
        """The file as an engine; ``None`` when there is no such file (any more)."""
        try:
            data = read_regular(path, MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            message = f"the file cannot be read: {error.strerror}"
            return self._unreadable(path, message, "check its permissions")
        if len(data) > MAX_FILE_BYTES:
            message = f"a smss file has at most {MAX_FILE_BYTES} bytes"
            return self._unreadable(path, message, "is it data, or an archive, with the wrong name?")
        return self.load_text(data, path, reloading=reloading)

    def load_text(self, data: bytes, path: Path, *, reloading: bool = False) -> Loaded:
        """The content ``data`` as if it stood in the file ``path`` (which need not exist).

        ``reloading`` is for :attr:`EngineContext.reloading <enginehost.engine.EngineContext.reloading>`.
        """
        declaration = interpret(data, path, self._sources)
        record = EngineRecord(declaration.engine_id, declaration.engine_class, declaration.display_name, path)
        loaded = Loaded(record)
        whole = False
        try:
            if overlay := self._secrets.engine_secrets(declaration.engine_id, declaration.alias):
                declaration.overlay(overlay)
                record.kind, record.display_name = declaration.engine_class, declaration.display_name
            whole = True
            self._open(declaration, loaded, reloading)
        except ConfigError as error:
            self._found(declaration, None, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the plugin boundary: it may raise anything
            hint = "the engine's class is at fault"
            self._fail(declaration, "engine-broken", self.explain(error), hint)
            record.traceback = self.traceback_of(error)
        record.diagnostics = tuple(declaration.diagnostics)
        if loaded.engine is None:
            unsupported = any(found.code == UNSUPPORTED for found in record.diagnostics)
            record.state = EngineState.UNSUPPORTED if unsupported else EngineState.FAILED
            record.reason = self.safe(_reason(path.name, record.diagnostics))
            if record.declared is None and whole:
                found = read_name(declaration, complete=loaded.complete)
                record.declared, record.in_doubt = (None if found.name == UNREAD else found), found
        return loaded

    def explain(self, error: BaseException) -> str:
        """What to show people who look after the files of an error that an engine raised: no secrets."""
        text = (
            error.message if isinstance(error, EngineHostError) else f"{type(error).__name__}: {told(error)}"
        )
        return self._redact(text)

    def traceback_of(self, error: BaseException) -> str:
        """Where an engine's code raised ``error``, for the log, without secrets; empty where it did not."""
        return self._redact(author_traceback(error))

    def safe(self, text: str) -> str:
        """A reason as callers may read it."""
        return safe_text(text, self._redact)

    def _open(self, declaration: Declaration, loaded: Loaded, reloading: bool) -> None:
        record = loaded.record
        engine_class = self._class(declaration, loaded)
        if engine_class is None:
            if semoss_reason(declaration.engine_class) is None:
                _add_further_errors(declaration)
            return
        loaded.complete = engine_class.requires_signature
        model = engine_class.config_model
        keys: Reading[Any] = read_keys(declaration, model) if model is not None else Reading(None)
        if not getattr(engine_class, "accepts_any_key", False):
            check_keys(declaration, model)
        parts = read_signature(
            declaration,
            required=engine_class.requires_signature,
            name_key=getattr(engine_class, "name_key", ""),
            completed=getattr(engine_class, "completes_signature", False),
        )
        record.declared = parts.signature if parts.known else None
        warnings = _Warnings(declaration)
        context = self._context(declaration, parts, record, warnings, reloading)
        if declaration.has_errors:
            warnings.declaration = None
            self._look_further(declaration, engine_class, context, keys, sure=parts.known)
            return
        try:
            engine = make_engine(engine_class, context, keys.config)
        except ConfigError as error:
            self._found(declaration, engine_class, error)
            return
        functions = functions_of(engine)
        warnings.declaration = None
        loaded.watched = watched_by(engine)
        for path in loaded.watched:
            know_folder(path.parent)
        if declaration.has_errors:
            return
        loaded.engine = record.engine = engine
        loaded.functions = functions

    def _look_further(
        self,
        declaration: Declaration,
        engine_class: EngineClass,
        context: EngineContext,
        keys: Reading[Any],
        *,
        sure: bool,
    ) -> None:
        """Find what else is wrong with a file that has errors: the engine is made, and forgotten at once.

        Where some of what it is made of could not be read (``sure`` off: the signature), only what it says of
        another key counts, and not that a parameter is undeclared.
        """
        model = engine_class.config_model
        if model is not None and keys.config is None:
            return
        if engine_class.requires_signature and context.signature is None:
            return
        try:
            make_engine(engine_class, context, keys.config)
        except ConfigError as error:
            key = spelling(declaration, model, _key_of(error))
            readable = key in declaration and key not in keys.unread and not declaration.is_unresolved(key)
            whole = sure and not keys.unread and not any(map(declaration.is_unresolved, declaration.keys()))
            if whole or (readable and error.reason != UNDECLARED_PARAMETER):
                self._found(declaration, engine_class, error)
        except (Exception, SystemExit):  # noqa: BLE001 - the plugin boundary; perhaps for want of the rest
            return

    def _found(self, declaration: Declaration, engine_class: EngineClass | None, error: ConfigError) -> None:
        """Add an error that an engine, or the way to it, raised."""
        model = engine_class.config_model if engine_class is not None else None
        place = error.line, error.column
        if not error.line:
            place = declaration.location(spelling(declaration, model, _key_of(error)))
        message, hint = self.explain(error), self._redact(error.hint)
        message, hint = (as_written(declaration, model, text) for text in (message, hint))
        self._fail(declaration, error.reason, message, hint, *place)

    def _class(self, declaration: Declaration, loaded: Loaded) -> EngineClass | None:
        text = declaration.engine_class
        if not text:
            hint = (
                "write ENGINE_CLASS = LocalPython, REST, Reactor or another kind (see `enginehost plugins`)"
            )
            self._fail(declaration, "no-engine-class", "ENGINE_CLASS is missing", hint)
            return None
        resolution = self._registry.resolve_engine_class(text)
        if "ENGINE_CLASS" in declaration and "ENGINE_TYPE" in declaration:
            warn_of_contradiction(declaration, self._registry, resolution)
        if isinstance(resolution, Unsupported):
            key = "ENGINE_CLASS" if declaration.words("ENGINE_CLASS") else "ENGINE_TYPE"
            line, column = declaration.location(key)
            severity = Severity.WARNING if resolution.other_type else Severity.ERROR
            loaded.complete = resolution.other_type
            reason, hint = resolution.reason, resolution.hint
            self._fail(declaration, UNSUPPORTED, reason, hint, line, column, severity)
            return None
        alias = resolution.runner if isinstance(resolution, DottedClass) else resolution.alias
        loaded.record.kind = text if isinstance(resolution, DottedClass) else alias.title
        loaded.record.is_model = alias.group == MODELS
        return self._registry.engine_class(alias.name)

    def _context(
        self,
        declaration: Declaration,
        parts: SignatureParts,
        record: EngineRecord,
        warnings: _Warnings,
        reloading: bool,
    ) -> EngineContext:
        path = declaration.path
        return EngineContext(
            engine_id=declaration.engine_id,
            display_name=declaration.display_name,
            path=path,
            alias=declaration.alias,
            properties=declaration.properties() | {"ENGINE_CLASS": declaration.engine_class},
            signature=parts.signature,
            limits=parts.limits,
            bind=parts.bind,
            approval=parts.approval,
            coerce_text=parts.coerce_text,
            access=self._access,
            changed=lambda: self._changed(path),
            failed=lambda reason, cause=None: self._failed(record, self.safe(reason), cause),
            warn=warnings.warn,
            reloading=reloading,
            opening=lambda doing: self._opening(path, self.safe(doing)),
            conceal=self._redact.add,
            redact=self._redact,
            agents=self._services.agents,
            llm=self._services.llm,
            lacks=self._services.lacks,
        )

    def _fail(
        self,
        declaration: Declaration,
        code: str,
        message: str,
        hint: str,
        line: int = 0,
        column: int = 0,
        severity: Severity = Severity.ERROR,
    ) -> None:
        path = str(declaration.path)
        declaration.diagnostics.append(Diagnostic(path, line, column, severity, code, message, hint))

    def _unreadable(self, path: Path, message: str, hint: str) -> Loaded:
        record = EngineRecord(path.stem, "", path.stem, path, state=EngineState.FAILED, reason=message)
        record.diagnostics = (Diagnostic(str(path), 0, 0, Severity.ERROR, "unreadable", message, hint),)
        return Loaded(record)


def _add_further_errors(declaration: Declaration) -> None:
    """What else is wrong in a file whose class is a slip of the pen; warnings are for when it has one."""
    before = len(declaration.diagnostics)
    read_signature(declaration, required=False)
    declaration.diagnostics[before:] = [
        found for found in declaration.diagnostics[before:] if found.severity is Severity.ERROR
    ]


def _key_of(error: ConfigError) -> str:
    """The key that an engine's error names, or with whose name its message begins."""
    words = error.message.split(maxsplit=1)
    return error.key or (words[0].rstrip(":,").upper() if words else "")


def functions_of(engine: IFunctionEngine) -> tuple[Function, ...]:
    """What the engine offers now. Raises what it raises, and ``TypeError`` for what is no ``Function``."""
    functions = tuple(engine.functions())
    for made in functions:
        if not isinstance(made, Function):  # pyright: ignore[reportUnnecessaryIsInstance] - a stranger's code
            raise TypeError(f"functions() gave {type(made).__name__}, not Function")
    return functions


def watched_by(engine: IFunctionEngine) -> dict[Path, Fingerprint | None]:
    """The files the engine depends on, as they are now."""
    return {path: fingerprint(path) for path in map(_normal, engine.watched())}


def _normal(path: Path) -> Path:
    """The path as the watcher tells it: absolute, without ``..``."""
    text = os.path.abspath(path)  # noqa: PTH100 - pathlib keeps `..`, and is slow
    return path if text == str(path) else Path(text)


def _reason(name: str, diagnostics: Sequence[Diagnostic]) -> str:
    """The first error (or why the file is not for us), with the file's name alone: callers may read it."""
    for found in diagnostics:
        if found.severity is Severity.ERROR or found.code == UNSUPPORTED:
            return f"{name}:{found.line}: {found.message}" if found.line else f"{name}: {found.message}"
    return f"{name} could not be loaded"


def folder_loader(
    registry: PluginRegistry,
    secrets: Secrets,
    settings: HostSettings,
    folder: Path,
    changed: Callable[[Path], None],
    failed: Failed = _nobody_hears,
    opening: Opening = _nobody_waits,
    *,
    ahead: bool = True,
    services: Services = _NO_SERVICES,
) -> Loader:
    """A loader for the files of ``folder`` that lets them do what the settings allow.

    ``ahead`` is that of :class:`~enginehost.engine.HostAccess`.
    """
    know_folder(folder)
    access = HostAccess(
        in_process_python=settings.in_process_python,
        private_networks=settings.private_networks,
        max_workers=settings.max_workers,
        state_dir=settings.state_dir,
        max_programs=settings.max_programs,
        ahead=ahead,
    )
    given = sources(secrets, folder)
    return Loader(registry, secrets, given, access, secrets.redactor, changed, failed, opening, services)


_SECRET_NAME = re.compile(r"(?i)key|token|secret|pass|pwd|credential|auth")


def sources(secrets: Secrets, folder: Path, environ: Mapping[str, str] | None = None) -> Sources:
    """Where ``${env:…}``, ``${file:…}`` and ``${secret:…}`` come from; the redactor learns what is secret."""
    environ = os.environ if environ is None else environ
    redactor = secrets.redactor

    def env(name: str) -> str | None:
        value = environ.get(name)
        if value is not None and _SECRET_NAME.search(name):
            redactor.add(value)
        return value

    def file(path: Path) -> str:
        text = read_text_file(path)
        redactor.add(text.strip())
        return text

    return Sources(env=env, file=file, secret=secrets.secret, base_folder=folder, secret_place=secrets.place)
