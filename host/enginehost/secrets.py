"""Where ``${secret:name}`` and the secrets of whole engines come from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from enginehost.contributions import Implementation
from enginehost.errors import ConfigError
from enginehost.keys import COMMON_KEYS
from enginehost.redaction import Redactor
from enginehost.regular_file import read_regular

MAX_FILE_BYTES = 1 << 20
"""The largest secret file; Kubernetes allows 1 MiB for a whole Secret."""

ENV_PREFIX = "ENGINEHOST_SECRET_"

_TOLD = frozenset(COMMON_KEYS) - {"FUNCTION_BIND"}
"""Keys that a store may hold beside the secrets, which are none: names, descriptions, limits."""

_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class Secrets:
    """Asks the plugins, then a folder of files, then the environment.

    ``folder`` holds one file per secret, as Docker and Kubernetes mount them. The variable for the
    name ``db-password`` is ``<env_prefix>DB_PASSWORD``. Everything that was resolved is known to
    ``redactor``. Every failure is a ``ConfigError`` that names the store and never holds a value.
    """

    def __init__(
        self,
        *,
        folder: Path | None = None,
        env_prefix: str = ENV_PREFIX,
        stores: Sequence[Implementation] = (),
        engine_stores: Sequence[Implementation] = (),
        environ: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.redactor = redactor or Redactor()
        self._folder = folder
        self._env_prefix = env_prefix
        self._stores = stores
        self._engine_stores = engine_stores
        self._environ = os.environ if environ is None else environ

    def secret(self, name: str) -> str | None:
        """The value of ``${secret:name}``; ``None`` when no store has it."""
        for look in (self._from_plugins, self._from_folder, self._from_environment):
            value = look(name)
            if value is not None:
                self.redactor.add(value)
                return value
        return None

    def place(self, name: str) -> str:
        """Where ``${secret:name}`` could be put, as a hint."""
        ways = [f"set the variable {self._variable(name)}"]
        if self._folder is None:
            ways.append(f"write a file {name} in a folder that the setting secrets.folder names")
        elif _FILE_NAME.fullmatch(name):
            ways.append(f"write the file {self._folder / name}")
        return ", or ".join(ways)

    def engine_secrets(self, engine_id: str, alias: str) -> dict[str, str]:
        """What overlays the keys of this engine's file: keys in upper case, the first plugin's value."""
        merged: dict[str, str] = {}
        for store in self._engine_stores:
            answer = _ask(store, engine_id=engine_id, alias=alias)
            for key, value in _mapping(store, answer).items():
                merged.setdefault(key.upper(), value)
        for key, value in merged.items():
            if key not in _TOLD:
                self.redactor.add(value)
        return merged

    def _from_plugins(self, name: str) -> str | None:
        for store in self._stores:
            value = _ask(store, name=name)
            if value is not None:
                return _text(store, value)
        return None

    def _from_folder(self, name: str) -> str | None:
        if self._folder is None or not _FILE_NAME.fullmatch(name):
            return None
        try:
            data = read_regular(self._folder / name, MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            message = f"the file of secret {name!r} cannot be read: {error.strerror}"
            raise _failure(message, "let the user that the host runs as read it") from error
        if len(data) > MAX_FILE_BYTES:
            raise _failure(f"the file of secret {name!r} is over {MAX_FILE_BYTES} bytes", "is it a secret?")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            message = f"the file of secret {name!r} is not UTF-8"
            raise _failure(message, "secrets are text: write it in UTF-8, or as base64") from None
        return text.removesuffix("\n").removesuffix("\r")

    def _from_environment(self, name: str) -> str | None:
        return self._environ.get(self._variable(name))

    def _variable(self, name: str) -> str:
        return self._env_prefix + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def _ask(store: Implementation, **arguments: str) -> Any:
    try:
        return store.call(**arguments)
    except (Exception, SystemExit) as error:
        # only the class: the text may hold what was being looked up
        what = type(error).__name__
        message = f"the secret store {store.plugin} failed in {store.hook}: {what}"
        raise _failure(
            message, f"see to the store behind {store.plugin}, or uninstall {store.plugin}"
        ) from error


def _text(store: Implementation, value: Any) -> str:
    if isinstance(value, str):
        return value
    what = type(value).__name__
    message = f"the secret store {store.plugin} answered {store.hook} with {what}, not text"
    raise _failure(message, f"mend or uninstall {store.plugin}")


def _mapping(store: Implementation, answer: Any) -> dict[str, str]:
    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        what = type(answer).__name__
        message = f"the secret store {store.plugin} answered {store.hook} with {what}, not a mapping"
        raise _failure(message, f"mend or uninstall {store.plugin}")
    return {_text(store, key): _text(store, value) for key, value in answer.items()}


def _failure(message: str, hint: str) -> ConfigError:
    return ConfigError(message, hint=hint, reason="secret-store")
