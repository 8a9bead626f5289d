"""Hosts of folders behind a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from enginehost.host import Host
from enginehost.serve import HttpServer
from enginehost.settings import HostSettings


@dataclass
class Running:
    """A host and its server."""

    host: Host
    server: HttpServer
    client: httpx2.AsyncClient
    folder: Path


@pytest.fixture
def serve_folder() -> Callable[..., AbstractAsyncContextManager[Running]]:
    """``async with serve_folder(folder, **settings) as running``."""

    @asynccontextmanager
    async def serving(folder: Path, **settings: Any) -> AsyncIterator[Running]:
        made = HostSettings(state_dir=folder.parent / "state", **settings)
        async with Host(folder, None, settings=made) as host:
            server = HttpServer(host, "127.0.0.1:0")
            await server.start()
            try:
                async with httpx2.AsyncClient(base_url=server.url, timeout=30) as client:
                    yield Running(host, server, client, folder)
            finally:
                await server.stop(0.5)

    return serving
