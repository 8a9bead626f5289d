"""The tests run from a checkout too, before the plugin is installed."""

import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from enginehost_anthropic import AnthropicConfig, AnthropicModel

from enginehost.engine import EngineContext, HostAccess
from enginehost.testing.wire import Provider, provider


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The host runs on asyncio."""
    return "asyncio"


@pytest.fixture
async def server() -> AsyncGenerator[Provider, None]:
    """The provider's side."""
    async with provider() as served:
        yield served


@pytest.fixture
async def model(server: Provider) -> AsyncGenerator[Callable[..., Any], None]:
    """``await model(KEY=…)``: an open engine on the server."""
    opened: list[AnthropicModel] = []

    async def make(*, private_networks: bool = True, **keys: Any) -> AnthropicModel:
        config = AnthropicConfig.model_validate({"API_KEY": "sk-secret", "ENDPOINT": server.url} | keys)
        access = HostAccess(private_networks=private_networks)
        engine = AnthropicModel(EngineContext("claude", access=access), config)
        await engine.open()
        opened.append(engine)
        return engine

    yield make
    for engine in opened:
        await engine.close()
