"""Checks smss files, and the settings beside them, without opening an engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from enginehost.catalog import Catalog, EngineRecord
from enginehost.cli.failures import CommandError
from enginehost.cli.source import require_folder
from enginehost.contributions import collect
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.errors import ConfigError
from enginehost.folder import is_smss, look
from enginehost.lifecycle import duplicate_id
from enginehost.loader import Loader, folder_loader
from enginehost.plugins import PluginRegistry
from enginehost.policy import policy_for
from enginehost.secrets import Secrets
from enginehost.settings import HostSettings, load_settings


def check(paths: Sequence[Path], config: Path | None) -> tuple[int, list[Diagnostic]]:
    """How many files there are, and what was found in them and in the settings, in order of place.

    ``paths`` are smss files and folders. Raises :class:`CommandError` for a path that is neither.
    """
    files = sorted(dict.fromkeys(file.absolute() for path in paths for file in _files(path)))
    found: list[Diagnostic] = []
    settings = _settings(paths[0], config, found)
    loader = _loader(settings, _folder(paths[0]))
    catalog = Catalog()
    ids: dict[str, Path] = {}
    for file in files:
        loaded = loader.load(file)
        if loaded is None:
            continue
        found += loaded.record.diagnostics
        found += _shared_id(loaded.record, ids.setdefault(loaded.record.engine_id, file))
        loaded.record.engine_id = str(file)
        catalog.put(loaded.record, loaded.functions)
    found += [conflict.diagnostic() for conflict in catalog.conflicts()]
    return len(files), sorted(found, key=lambda one: (one.path, one.line, one.column))


def _files(path: Path) -> Iterable[Path]:
    if path.is_file():
        if not is_smss(path):
            raise CommandError(f"{path} is no smss file", hint="its name has to end in .smss")
        return (path,)
    require_folder(path)
    return look(path).files


def _folder(path: Path) -> Path:
    return (path if path.is_dir() else path.parent).absolute()


def _settings(path: Path, config: Path | None, found: list[Diagnostic]) -> HostSettings:
    try:
        settings = load_settings(_folder(path), config=config)
        policy_for(settings)
    except ConfigError as error:
        found.append(as_diagnostic(error, "settings"))
        return HostSettings()
    return settings


def as_diagnostic(error: ConfigError, code: str) -> Diagnostic:
    """A wrong setting as a finding."""
    return Diagnostic(error.path, error.line, error.column, Severity.ERROR, code, error.message, error.hint)


def _loader(settings: HostSettings, folder: Path) -> Loader:
    registry = PluginRegistry()
    plugins = collect(registry)
    secrets = Secrets(
        folder=settings.secrets.folder,
        env_prefix=settings.secrets.env_prefix,
        stores=plugins.secrets,
        engine_stores=plugins.engine_secrets,
    )
    return folder_loader(registry, secrets, settings, folder, lambda _: None)


def _shared_id(record: EngineRecord, first: Path) -> list[Diagnostic]:
    if record.path is None or record.path == first:
        return []
    return [duplicate_id(record.path, record.engine_id, first)]
