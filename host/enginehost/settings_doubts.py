"""What settings say that has no effect here: a warning each, since a host can run all the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from enginehost.diagnostics import Diagnostic, Severity
from enginehost.settings_layers import FILE_NAME

if TYPE_CHECKING:
    from enginehost.settings import HostSettings

DOUBTS = frozenset({"secrets-folder", "unread-settings"})
"""The codes of these warnings."""


def doubts(settings: HostSettings, folder: Path | None) -> Iterator[Diagnostic]:
    """Warnings about the settings of a host that serves ``folder``."""
    if secrets := settings.secrets.folder:
        yield from _secrets(secrets, settings.config_file)
    if folder is not None:
        with suppress(OSError):  # a folder that cannot be read is told elsewhere
            yield from _unread(folder.absolute() / FILE_NAME, settings.config_file)


def _secrets(folder: Path, config: Path | None) -> Iterator[Diagnostic]:
    try:
        with os.scandir(folder):
            return
    except OSError as error:
        message = f"the folder of secrets {folder} cannot be read: {error.strerror}"
    hint = "make it, or correct the setting secrets.folder"
    yield Diagnostic(str(config or ""), 0, 0, Severity.WARNING, "secrets-folder", message, hint)


def _unread(file: Path, config: Path | None) -> Iterator[Diagnostic]:
    if not file.is_file() or (config is not None and file.samefile(config)):
        return
    message = "this file is not read: settings stand beside the folder of smss files, not in it"
    hint = f"move it to {file.parent.parent}, or name it with --config"
    yield Diagnostic(str(file), 0, 0, Severity.WARNING, "unread-settings", message, hint)
