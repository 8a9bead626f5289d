"""Model engines that a program makes, of the keys that a smss file would have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.catalog import EngineRecord
from enginehost.config import config_of
from enginehost.engine import EngineContext
from enginehost.entrypoints import MODELS
from enginehost.errors import ConfigError, InvalidRequest
from enginehost.host import Host
from enginehost.plugins import PluginRegistry, Registered, Unsupported


async def add_model(host: Host, keys: Mapping[str, str], name: str = "") -> str:
    """Serve a model of these keys under ``name``, unless the host has one of that name; the name.

    ``name`` is by default what ``MODEL`` says, else the class. Raises ``ConfigError`` for keys that are
    wrong, and for a class that no plugin provides.
    """
    said = {key.upper(): str(value) for key, value in keys.items()}
    engine_class = said.get("ENGINE_CLASS", "")
    name = name or said.get("MODEL") or engine_class
    try:
        host.llm(name)
    except InvalidRequest:
        pass
    else:
        return name
    found, kind = _class(host.registry, engine_class)
    context = EngineContext(
        name,
        display_name=name,
        properties=said,
        conceal=host.redactor.add,
        redact=host.redactor,
    )
    config = config_of(said, found.config_model) if found.config_model is not None else None
    record = EngineRecord(name, kind, display_name=name, is_model=True)
    await host.add_engine(record, found(context, config))
    return name


def _class(registry: PluginRegistry, text: str) -> tuple[Any, str]:
    resolution = registry.resolve_engine_class(text)
    if isinstance(resolution, Unsupported):
        raise ConfigError(
            f"ENGINE_CLASS = {text}: {resolution.reason}", key="ENGINE_CLASS", hint=resolution.hint
        )
    if not isinstance(resolution, Registered) or resolution.alias.group != MODELS:
        hint = "`enginehost plugins` lists the classes of models"
        raise ConfigError(f"ENGINE_CLASS = {text} is no model", key="ENGINE_CLASS", hint=hint)
    return registry.engine_class(resolution.alias.name), resolution.alias.title
