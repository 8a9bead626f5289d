"""Engines without a host, and a host without the command line."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehost.engine import EngineContext, HostAccess, IFunctionEngine
from enginehost.errors import ConfigError
from enginehost.signature import NO_PARAMETERS, FunctionSignature, JsonSchema

if TYPE_CHECKING:
    from enginehost.host import Host
    from enginehost.loader import Loaded
    from enginehost.plugins import EngineClass, PluginRegistry

FILE_NAME = "engine_under_test.smss"
"""The name under which a text is loaded."""


def make_context(
    name: str = "function", *, parameters: JsonSchema = NO_PARAMETERS, description: str = "", **fields: Any
) -> EngineContext:
    """A context as the host would make it; ``fields`` are those of :class:`EngineContext`."""
    signature = FunctionSignature(name, description, parameters)
    return replace(EngineContext("test", "Test", signature=signature), **fields)


def engine_registry(engine_class: EngineClass, smss: str) -> PluginRegistry:
    """A registry that knows nothing but this class, under the alias that ``smss`` gives in ``ENGINE_CLASS``.

    Raises ``ConfigError`` when the text names none, or when the class is no engine class.
    """
    from enginehost.plugins import ENGINES, MODELS, Alias, PluginRegistry
    from enginehost.properties import load

    keys = {key.upper(): value.strip() for key, value in load(smss).items()}
    alias = keys.get("ENGINE_CLASS") or keys.get("ENGINE_TYPE")
    if not alias:
        raise ConfigError("the smss text has no ENGINE_CLASS", hint="give the alias of the class under test")
    registry = PluginRegistry(())
    group = MODELS if hasattr(engine_class, "default_model") else ENGINES
    registry.add_engine_class(Alias(alias, "", group, "under-test", ""), engine_class)
    for problem in registry.problems:
        raise ConfigError(problem.message, hint=problem.hint)
    return registry


def load_engine(
    engine_class: EngineClass, smss: str, folder: Path, *, access: HostAccess | None = None
) -> Loaded:
    """Load ``smss`` as a file in ``folder`` with this class, exactly as the host does.

    What was found in the text is in ``record.diagnostics``; ``engine`` is ``None`` where it cannot serve.
    """
    from enginehost.loader import Loader, sources
    from enginehost.redaction import Redactor
    from enginehost.secrets import Secrets

    redactor = Redactor()
    secrets = Secrets(redactor=redactor)
    loader = Loader(
        engine_registry(engine_class, smss),
        secrets,
        sources(secrets, folder),
        access or HostAccess(),
        redactor,
        _ignore,
    )
    return loader.load_text(smss.encode(), folder / FILE_NAME)


def make_engine(
    engine_class: EngineClass, smss: str, folder: Path, *, access: HostAccess | None = None
) -> IFunctionEngine:
    """The engine that ``smss`` declares, not yet open. Raises ``ConfigError`` with what is wrong."""
    loaded = load_engine(engine_class, smss, folder, access=access)
    if loaded.engine is None:
        raise ConfigError("\n".join(str(found) for found in loaded.record.diagnostics))
    return loaded.engine


@asynccontextmanager
async def running_host(
    folder: Path, *, registry: PluginRegistry | None = None, **settings: Any
) -> AsyncGenerator[Host, None]:
    """A host on ``folder``, not on the databus, that does not watch for changes.

    ``registry`` limits which engine classes there are; by default all installed ones. ``settings``
    are those of :class:`~enginehost.settings.HostSettings`; no file and no variable is read.
    """
    from enginehost.host import Host
    from enginehost.settings import HostSettings

    settings.setdefault("state_dir", folder.parent / "state")
    async with Host(folder, None, settings=HostSettings(**settings), registry=registry, watch=False) as host:
        yield host


def _ignore(path: Path) -> None:
    """Nobody listens to changes of an engine without a host."""
