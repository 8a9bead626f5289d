"""Users' own stages and harnesses: Python of a file that runs in the host, where its settings allow that."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from enginehost.engine import EngineContext
from enginehost.errors import ConfigError


def load_object(text: str, context: EngineContext, key: str) -> tuple[Any, Path | None]:
    """What ``package.module:name`` names, and its file where that lies beside the smss file.

    A module beside the smss file is loaded anew each time. Raises :class:`ConfigError`.
    """
    module, _, name = text.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        hint = "write package.module:name"
        raise ConfigError(f"{key}: {text[:200]!r} is no dotted path", key=key, hint=hint, reason="bad-path")
    if not context.access.in_process_python:
        raise ConfigError(
            f"{key}: {text} would run inside the host, which is not allowed here",
            key=key,
            hint="the host's setting in_process_python allows it",
            reason="not-allowed",
        )
    file = _beside(context.folder, module)
    try:
        found: Any = _loaded(file, module) if file is not None else importlib.import_module(module)
    except Exception as error:
        text = f"{key}: {module} cannot be loaded: {type(error).__name__}: {error}"
        raise ConfigError(text, key=key, reason="module-broken") from error
    if not hasattr(found, name):
        raise ConfigError(f"{key}: {module} has no {name}", key=key, reason="name-missing")
    return getattr(found, name), file


def _beside(folder: Path, module: str) -> Path | None:
    base = folder.joinpath(*module.split("."))
    return next((one for one in (base.with_suffix(".py"), base / "__init__.py") if one.is_file()), None)


def _loaded(file: Path, module: str) -> Any:
    """The module of a file under a name of its own, so that two folders may have one of the same name."""
    name = f"_enginehost_agents_{abs(hash(str(file.resolve()))):x}_{module.replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} is no Python module")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        exec(compile(file.read_bytes(), str(file), "exec"), made.__dict__)  # noqa: S102 - as read now, no cache
    except BaseException:
        del sys.modules[name]
        raise
    return made
