"""One smss file → one engine: read, interpret, find the class, make the engine, ask for its functions.

Runs on the loader's thread and never raises: what is wrong becomes diagnostics and a reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enginehost.catalog import EngineRecord
from enginehost.config import check_keys, read_config
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.engine import EngineContext, EngineState, Function, HostAccess, IFunctionEngine
from enginehost.errors import ConfigError, EngineHostError
from enginehost.folder import Fingerprint, fingerprint
from enginehost.interpret import Declaration, interpret
from enginehost.local_paths import know_folder
from enginehost.parameters import SignatureParts, read_name, read_signature
from enginehost.plugins import DottedClass, EngineClass, PluginRegistry, Unsupported
from enginehost.redaction import Redactor
from enginehost.safe_text import safe_text, told
from enginehost.secrets import Secrets
from enginehost.settings import HostSettings
from enginehost.substitute import Sources, read_text_file

MAX_FILE_BYTES = 4 * 1024 * 1024
"""A larger smss file is a mistake (a model or an archive with the wrong name)."""


@dataclass(slots=True)
class Loaded:
    """What came of one file. ``engine`` is ``None`` where it cannot serve (see ``record.reason``)."""

    record: EngineRecord
    engine: IFunctionEngine | None = None
    functions: tuple[Function, ...] = ()
    watched: dict[Path, Fingerprint | None] = field(default_factory=dict)
    """Files the engine depends on, as they were when it was made."""


def _nobody_hears(record: EngineRecord, reason: str) -> None:
    """The default of a loader's ``failed``."""


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

    ``changed`` is told, on any thread, the file of an engine whose functions changed; ``failed`` the
    record of an engine that cannot serve any more, and why.
    """

    def __init__(
        self,
        registry: PluginRegistry,
        secrets: Secrets,
        sources: Sources,
        access: HostAccess,
        redact: Redactor,
        changed: Callable[[Path], None],
        failed: Callable[[EngineRecord, str], None] = _nobody_hears,
    ) -> None:
        self._registry = registry
        self._secrets = secrets
        self._sources = sources
        self._access = access
        self._redact = redact
        self._changed = changed
        self._failed = failed

    def load(self, path: Path, *, reloading: bool = False) -> Loaded | None:
        """The file as an engine; ``None`` when there is no such file (any more)."""
        try:
            data = _read(path)
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
        try:
            self._open(declaration, loaded, reloading)
        except ConfigError as error:
            line, column = (error.line, error.column) if error.line else _place(declaration, error)
            self._fail(declaration, error.reason, self.explain(error), self._redact(error.hint), line, column)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the plugin boundary: it may raise anything
            hint = "the engine's class is at fault"
            self._fail(declaration, "engine-broken", self.explain(error), hint)
        record.diagnostics = tuple(declaration.diagnostics)
        if loaded.engine is None:
            record.state, record.reason = EngineState.FAILED, self.safe(_reason(record.diagnostics))
            record.declared = record.declared or read_name(declaration)
        return loaded

    def explain(self, error: BaseException) -> str:
        """What to show people who look after the files of an error that an engine raised: no secrets."""
        text = (
            error.message if isinstance(error, EngineHostError) else f"{type(error).__name__}: {told(error)}"
        )
        return self._redact(text)

    def safe(self, text: str) -> str:
        """A reason as callers may read it."""
        return safe_text(text, self._redact)

    def _open(self, declaration: Declaration, loaded: Loaded, reloading: bool) -> None:
        record = loaded.record
        if overlay := self._secrets.engine_secrets(declaration.engine_id, declaration.alias):
            declaration.overlay(overlay)
            record.kind, record.display_name = declaration.engine_class, declaration.display_name
        engine_class = self._class(declaration, loaded)
        if engine_class is None:
            return
        model = engine_class.config_model
        config: Any = read_config(declaration, model) if model is not None else None
        if not getattr(engine_class, "accepts_any_key", False):
            check_keys(declaration, model)
        parts = read_signature(declaration, required=engine_class.requires_signature)
        record.declared = parts.signature if parts else None
        warnings = _Warnings(declaration)
        context = self._context(declaration, parts, record, warnings, reloading)
        if declaration.has_errors:
            return
        engine = engine_class(context, config)
        functions = functions_of(engine)
        warnings.declaration = None
        loaded.watched = watched_by(engine)
        for path in loaded.watched:
            know_folder(path.parent)
        if declaration.has_errors:
            return
        loaded.engine = record.engine = engine
        loaded.functions = functions

    def _class(self, declaration: Declaration, loaded: Loaded) -> EngineClass | None:
        text = declaration.engine_class
        if not text:
            hint = (
                "write ENGINE_CLASS = LocalPython, REST, Reactor or another kind (see `enginehost plugins`)"
            )
            self._fail(declaration, "no-engine-class", "ENGINE_CLASS is missing", hint)
            return None
        resolution = self._registry.resolve_engine_class(text)
        if isinstance(resolution, Unsupported):
            key = "ENGINE_CLASS" if declaration.words("ENGINE_CLASS") else "ENGINE_TYPE"
            line, column = declaration.location(key)
            severity = Severity.WARNING if resolution.other_type else Severity.ERROR
            reason, hint = resolution.reason, resolution.hint
            self._fail(declaration, "unsupported", reason, hint, line, column, severity)
            return None
        alias = resolution.runner if isinstance(resolution, DottedClass) else resolution.alias
        loaded.record.kind = text if isinstance(resolution, DottedClass) else alias.title
        return self._registry.engine_class(alias.name)

    def _context(
        self,
        declaration: Declaration,
        parts: SignatureParts | None,
        record: EngineRecord,
        warnings: _Warnings,
        reloading: bool,
    ) -> EngineContext:
        path = declaration.path
        parts = parts or SignatureParts(None)
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
            failed=lambda reason: self._failed(record, self.safe(reason)),
            warn=warnings.warn,
            reloading=reloading,
            conceal=self._redact.add,
            redact=self._redact,
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


def _place(declaration: Declaration, error: ConfigError) -> tuple[int, int]:
    """Where the key stands that an engine's error names, or with whose name its message begins."""
    words = error.message.split(maxsplit=1)
    return declaration.location(error.key or (words[0].rstrip(":,").upper() if words else ""))


def _read(path: Path) -> bytes:
    """The file's bytes; plain system calls, since ten thousand files are read in a second."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, MAX_FILE_BYTES + 1)
        while more := os.read(descriptor, MAX_FILE_BYTES + 1) if len(data) <= MAX_FILE_BYTES else b"":
            data += more
        return data
    finally:
        os.close(descriptor)


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


def _reason(diagnostics: Sequence[Diagnostic]) -> str:
    """The first error (or why the file is not for us), without the path: callers may read it."""
    for found in diagnostics:
        if found.severity is Severity.ERROR or found.code == "unsupported":
            return f"line {found.line}: {found.message}" if found.line else found.message
    return "the file could not be loaded"


def folder_loader(
    registry: PluginRegistry,
    secrets: Secrets,
    settings: HostSettings,
    folder: Path,
    changed: Callable[[Path], None],
    failed: Callable[[EngineRecord, str], None] = _nobody_hears,
) -> Loader:
    """A loader for the files of ``folder`` that lets them do what the settings allow."""
    know_folder(folder)
    access = HostAccess(
        in_process_python=settings.in_process_python,
        private_networks=settings.private_networks,
        max_workers=settings.max_workers,
    )
    return Loader(registry, secrets, sources(secrets, folder), access, secrets.redactor, changed, failed)


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
