"""The script that a smss file names, and the folders from which it may import."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from enginehost.engine import EngineContext
from enginehost.errors import ConfigError
from enginehost_engines.absence import no_file
from enginehost_engines.python_source import PythonSource, read_source

_SEMOSS_FOLDERS = ("", "app_root/version/assets", "py")
"""Where in an engine's own folder SEMOSS keeps its scripts, in the order of search."""


def find_script(context: EngineContext, script_path: str, file_name: str) -> tuple[Path, list[str]]:
    """The script and its folders, its own first, by ``PYTHON_SCRIPT_PATH`` or ``PYTHON_FILE_NAME``."""
    if script_path:
        # plain text: ten thousand files are loaded in a second, and pathlib takes three times as long
        script = os.path.realpath(os.path.join(context.folder, script_path))  # noqa: PTH118
        if os.path.isfile(script):  # noqa: PTH113
            return _shared(script), [os.path.dirname(script)]  # noqa: PTH120
        hint = "the path is relative to the smss file"
        raise _no_script("PYTHON_SCRIPT_PATH", no_file(script_path, script), hint)
    if not file_name:
        raise ConfigError(
            "the key PYTHON_SCRIPT_PATH is missing",
            key="PYTHON_SCRIPT_PATH",
            hint="name the script, relative to the smss file: PYTHON_SCRIPT_PATH = scripts/name.py",
            reason="missing-key",
        )
    folders = semoss_folders(context)
    why = no_file(file_name, "")
    for folder in folders:
        script = (folder / file_name).resolve()
        if script.is_file():
            places = (str(place.resolve()) for place in folders if place.is_dir())
            return script, list(dict.fromkeys((str(script.parent), *places)))
        if script.exists():
            why = no_file(file_name, script)
    hint = f"it is looked for in the folder {folders[0].name}, its app_root/version/assets and its py"
    raise _no_script("PYTHON_FILE_NAME", why, hint)


def semoss_folders(context: EngineContext) -> list[Path]:
    """Where an engine of SEMOSS's may have its scripts, in the order of search; they need not be there."""
    own = context.folder / f"{context.alias}__{context.engine_id}"
    beside = context.path.with_suffix("") if context.path else own
    return [base / inner for base in dict.fromkeys((own, beside)) for inner in _SEMOSS_FOLDERS]


def read_script(script: Path, key: str) -> PythonSource:
    """What the script, named by ``key``, declares. Raises :class:`ConfigError`."""
    try:
        return read_source(script)
    except ConfigError as error:
        error.key = key
        raise
    except OSError as error:
        text = f"{script.name} cannot be read: {error.strerror}"
        raise ConfigError(text, key=key, reason="script-missing") from error


@lru_cache(256)
def _shared(script: str) -> Path:
    """The path as one object for all files that name the script: it keeps its text and its hash."""
    return Path(script)


def _no_script(key: str, why: str, hint: str) -> ConfigError:
    return ConfigError(f"{key}: {why}", key=key, hint=hint, reason="script-missing")
