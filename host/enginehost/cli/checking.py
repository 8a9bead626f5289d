"""Checks smss files, and the settings beside them, without opening an engine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from enginehost.agents.agent_engine import agent_behind
from enginehost.agents.missing import NAMES_NOTHING, Missing, Surroundings, missing
from enginehost.catalog import Catalog, EngineRecord
from enginehost.cli.failures import CommandError
from enginehost.cli.loading import open_all
from enginehost.cli.secrecy import learn_from, masked_findings
from enginehost.cli.source import require_folder
from enginehost.contributions import collect
from enginehost.diagnostics import Diagnostic, Severity, error_diagnostics
from enginehost.engine_ids import duplicate_id
from enginehost.errors import ConfigError, EngineHostError, InvalidRequest
from enginehost.folder import UNUSABLE, is_smss, look, unusable_file, why_unusable
from enginehost.interpret import interpret
from enginehost.llm.models import Models
from enginehost.loader import MAX_FILE_BYTES, Loaded, Loader, Services, folder_loader
from enginehost.near_names import NearNames
from enginehost.plugins import PluginRegistry
from enginehost.policy import policy_for
from enginehost.regular_file import read_regular
from enginehost.secrets import Secrets
from enginehost.settings import HostSettings, load_settings


def check(paths: Sequence[Path], config: Path | None, *, load: bool) -> tuple[int, list[Diagnostic]]:
    """How many files there are, and what was found in them and in the settings, in order of place.

    ``paths`` are smss files and folders. With ``load`` the engines are opened too. Raises
    :class:`CommandError` for a path that is neither.
    """
    found: list[Diagnostic] = []
    files = sorted(dict.fromkeys(file.absolute() for path in paths for file in _files(path, found)))
    settings = _settings(paths[0], config, found)
    loader = loader_of(settings, _folder(paths[0]), PluginRegistry())
    catalog = Catalog()
    ids: dict[str, Path] = {}
    made: list[Loaded] = []
    for file in files:
        loaded = loader.load(file, reloading=load)
        if loaded is None:
            continue
        made.append(loaded)
        found += loaded.record.diagnostics
        found += _shared_id(loaded.record, ids.setdefault(loaded.record.engine_id, file))
        loaded.record.engine_id = str(file)
        catalog.put(loaded.record, loaded.functions)
    found += [conflict.diagnostic() for conflict in catalog.conflicts()]
    if paths and all(path.is_dir() for path in paths):  # of a part of a folder the rest is not known
        found += _missing(made, catalog, ids)
    if load:
        found += open_all(loader, made, settings.open_timeout)
    count = len(files) + sum(one.code == UNUSABLE for one in found)
    found = masked_findings(found)
    return count, sorted(found, key=lambda one: (one.path, one.line, one.column))


def _files(path: Path, found: list[Diagnostic]) -> Iterable[Path]:
    """The smss files that ``path`` means; into ``found`` goes what is named like one and is none."""
    if path.is_file():
        if not is_smss(path):
            raise CommandError(f"{path} is no smss file", hint="its name has to end in .smss")
        return (path,)
    if is_smss(path) and os.path.lexists(path) and not path.is_dir():
        found.append(unusable_file(path.absolute(), why_unusable(path)))
        return ()
    require_folder(path)
    listing = look(path)
    found += [unusable_file(one.absolute(), why) for one, why in listing.unusable.items()]
    return listing.files


def _folder(path: Path) -> Path:
    return (path if path.is_dir() else path.parent).absolute()


def _settings(path: Path, config: Path | None, found: list[Diagnostic]) -> HostSettings:
    try:
        settings = load_settings(_folder(path), config=config)
    except ConfigError as error:
        found += error_diagnostics(error, "settings")
        return HostSettings()
    try:
        policy_for(settings)
    except ConfigError as error:
        found += error_diagnostics(error, "policy")
    return settings


def loader_of(settings: HostSettings, folder: Path, registry: PluginRegistry) -> Loader:
    """A loader for the files of ``folder`` that knows what plugins bring, secrets among it."""
    plugins = collect(registry)
    secrets = Secrets(
        folder=settings.secrets.folder,
        env_prefix=settings.secrets.env_prefix,
        stores=plugins.secrets,
        engine_stores=plugins.engine_secrets,
    )
    learn_from(secrets.redactor)
    return folder_loader(registry, secrets, settings, folder, lambda _: None, services=Services(_no_turns))


async def _no_turns() -> None:
    """In place of the host's sessions: to look at files is not to open their database or take turns up."""


def _missing(made: Sequence[Loaded], catalog: Catalog, ids: Mapping[str, Path]) -> Iterator[Diagnostic]:
    """What agents name that no file of the folder brings."""
    agents = {name: one for one in made if (name := _agent_name(one.engine))}
    functions = {entry.name: entry.signature for entry in catalog}
    tags = {tag for signature in functions.values() for tag in signature.tags}
    models = {one.record.path for one in made if one.record.is_model}
    model_ids = {name for name, path in ids.items() if path in models}
    # a class in a worker process says only there whether it is an agent
    asked = {*agents, *(entry.name for entry in catalog if hasattr(entry.record.engine, "agent"))}
    # an engine that asks a server for its functions may yet bring any
    whole = all(one.functions or one.record.is_model for one in made)

    def fault(name: str) -> str:
        try:
            if name not in model_ids:
                Models(catalog).find(name)
        except InvalidRequest as error:
            return error.message
        except EngineHostError:
            pass  # there is one, which is not opened here
        return ""

    near = NearNames(functions)
    around = Surroundings(
        fault, functions.get, tags.__contains__, asked, lambda name: near.near(name, lambda _: True)
    )
    for one in agents.values():
        engine = agent_behind(one.engine)
        for found in missing(engine.spec, around) if engine is not None else ():
            if whole or found.code != NAMES_NOTHING or found.of_model:
                yield _of_missing(one.record, found)


def _agent_name(engine: object) -> str:
    agent = agent_behind(engine)
    return agent.spec.name if agent is not None else ""


def _of_missing(record: EngineRecord, found: Missing) -> Diagnostic:
    """At the key's place, which nobody kept while the file was loaded."""
    path = record.path or Path()
    try:
        place = interpret(read_regular(path, MAX_FILE_BYTES), path).location(found.key)
    except OSError:
        place = (0, 0)
    return Diagnostic(str(path), *place, Severity.WARNING, found.code, found.message, found.hint)


def _shared_id(record: EngineRecord, first: Path) -> list[Diagnostic]:
    if record.path is None or record.path == first:
        return []
    return [duplicate_id(record.path, record.engine_id, first.name)]
