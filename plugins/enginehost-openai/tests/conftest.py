"""The tests run from a checkout too, before the plugin is installed."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from openai_wire import Provider

    from enginehost import Host

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The host runs on asyncio."""
    return "asyncio"


@pytest.fixture
async def provider() -> AsyncGenerator[Provider, None]:
    """A running provider; tests set ``answer``."""
    from openai_wire import running

    async with running() as made:
        yield made


Hosting = Callable[..., AbstractAsyncContextManager["Host"]]


@pytest.fixture
def hosting(provider: Provider, tmp_path: Path) -> Hosting:
    """A host with one model, ``large-1`` at the provider; ``keys`` are further lines of its file."""

    @asynccontextmanager
    async def host(**keys: Any) -> AsyncGenerator[Host, None]:
        from enginehost_openai.engine import OpenAiEngine

        from enginehost.testing import engine_registry, running_host

        folder = tmp_path / "smss"
        folder.mkdir(exist_ok=True)
        lines = {
            "ENGINE_CLASS": "OpenAI",
            "MODEL": "large-1",
            "BASE_URL": provider.url,
            "RETRY_SECONDS": 0.01,
        }
        text = "\n".join(f"{name} = {value}" for name, value in (lines | keys).items())
        (folder / "gpt.smss").write_text(text, encoding="utf-8")
        registry = engine_registry(OpenAiEngine, text)
        async with running_host(folder, registry=registry) as made:
            assert not made.problems()
            yield made

    return host
