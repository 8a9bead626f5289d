"""The tests run from a checkout too, before the plugin is installed, and see no AWS configuration."""

import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from enginehost_bedrock import BedrockConfig, BedrockModel

from enginehost.config import config_of
from enginehost.engine import EngineContext
from enginehost.testing.wire import Provider, provider


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The host runs on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials of the machine."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
async def server() -> AsyncGenerator[Provider, None]:
    """The provider's side."""
    async with provider() as served:
        yield served


KEYS = {"AWS_ACCESS_KEY": "AKID", "AWS_SECRET_KEY": "very-secret", "AWS_REGION": "eu-central-1"}


@pytest.fixture
async def model(server: Provider) -> AsyncGenerator[Callable[..., Any], None]:
    """``await model(KEY=…)``: an open engine on the server."""
    opened: list[BedrockModel] = []

    async def make(**keys: Any) -> BedrockModel:
        given = KEYS | {"ENDPOINT": server.url, "LIST_ENDPOINT": server.url} | keys
        config = config_of({key: one for key, one in given.items() if one is not None}, BedrockConfig)
        engine = BedrockModel(EngineContext("bedrock"), config)
        await engine.open()
        opened.append(engine)
        return engine

    yield make
    for engine in opened:
        await engine.close()
