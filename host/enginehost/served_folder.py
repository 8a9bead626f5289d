"""The folder of a host: the engines of its files, kept in step with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVarTuple

from enginehost.catalog import Catalog
from enginehost.contributions import Contributions
from enginehost.diagnostics import Diagnostic
from enginehost.errors import ConfigError
from enginehost.following import Following
from enginehost.lifecycle import Engines
from enginehost.loader import Services, folder_loader
from enginehost.plugins import PluginRegistry
from enginehost.policy_source import PolicySource
from enginehost.redaction import Redactor
from enginehost.secrets import Secrets
from enginehost.settings import HostSettings

Ts = TypeVarTuple("Ts")


def folder_at(path: str | Path) -> Path:
    """The folder, absolute; it may still have to appear. Raises ``ConfigError`` for what is no folder."""
    folder = Path(path).absolute()
    if folder.exists() and not folder.is_dir():
        hint = "name the folder that holds the smss files"
        raise ConfigError(f"{path} is no folder", hint=hint, reason="no-folder")
    return folder


def secrets_for(settings: HostSettings, contributions: Contributions, redactor: Redactor) -> Secrets:
    """Where the files of a folder have their secrets from."""
    return Secrets(
        folder=settings.secrets.folder,
        env_prefix=settings.secrets.env_prefix,
        stores=contributions.secrets,
        engine_stores=contributions.engine_secrets,
        redactor=redactor,
    )


class ServedFolder:
    """Owns the engines of the files in ``root``, and follows these and the file of ``policy``.

    ``ahead`` and ``services`` are what engines are given. Made on the event loop of the host.
    """

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        registry: PluginRegistry,
        secrets: Secrets,
        settings: HostSettings,
        policy: PolicySource,
        *,
        ahead: bool,
        services: Services,
    ) -> None:
        self._open_timeout = settings.open_timeout
        loader = folder_loader(
            registry,
            secrets,
            settings,
            root,
            self._on_loop(Engines.functions_changed),
            self._on_loop(Engines.engine_failed),
            self._on_loop(Engines.engine_opening),
            ahead=ahead,
            services=services,
        )
        self._engines = Engines(
            catalog,
            loader,
            root,
            open_timeout=settings.open_timeout,
            drain_seconds=settings.drain_seconds,
        )
        self._following = Following(root, self._engines, policy.file, policy.seen)

    async def load(self, doubts: Callable[[], list[Diagnostic]], *, patient: bool) -> None:
        """Load all files, and wait until every engine serves, failed, or has used up its time to open.

        ``patient`` waits also for those that say that it takes long. From then on the log tells what is
        new, of ``doubts`` too.
        """
        self._engines.news.also(doubts)
        await self._following.load()
        await self._engines.opened(self._open_timeout + 1.0, patient=patient)
        self._engines.news.start()

    def follow(self, policy_changed: Callable[[], None]) -> None:
        """Keep in step from now on; ``policy_changed`` is called when the policy file was written."""
        self._following.start(policy_changed)

    def look_for_news(self) -> None:
        """Something has changed that is not in the files: tell what is new."""
        self._engines.news.look()

    def problems(self) -> list[Diagnostic]:
        """What is wrong with the folder, and what in it is named like a smss file and is none."""
        return [*self._following.problems(), *self._following.unusable()]

    async def stop_following(self) -> None:
        """Leave the engines as they are."""
        await self._following.stop()

    async def close(self) -> None:
        """Close the engines."""
        await self._engines.close()

    def _on_loop(self, hear: Callable[[Engines, *Ts], None]) -> Callable[[*Ts], None]:
        """``hear``, told by any thread: it runs with the engines on the loop that runs now."""
        loop = asyncio.get_running_loop()

        def tell(*told: *Ts) -> None:
            with suppress(RuntimeError):  # the loop has closed meanwhile
                loop.call_soon_threadsafe(hear, self._engines, *told)

        return tell
