"""The tests run from a checkout too, before the plugin is installed, on a configuration of their own."""

import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from enginehost_llm import LlmConfig, LlmModel

from enginehost.config import config_of
from enginehost.engine import EngineContext
from enginehost.testing.wire import Provider, provider


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The host runs on asyncio."""
    return "asyncio"


@pytest.fixture
async def server() -> AsyncGenerator[Provider, None]:
    """A provider's side."""
    async with provider() as served:
        yield served


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration of ``llm``."""
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


@pytest.fixture
def registered(folder: Path) -> Iterator[Callable[..., None]]:
    """``registered(model, async_model=None)``: a plugin of ``llm`` with these models."""
    import llm
    from llm.plugins import pm

    llm.get_models()  # so that the plugins of the installation are loaded first
    plugins: list[Any] = []

    def register_plugin(*models: Any, **keys: Any) -> None:
        class Plugin:
            @llm.hookimpl
            def register_models(self, register: Any) -> None:
                register(*models, **keys)

        plugins.append(Plugin())
        pm.register(plugins[-1], f"tests{len(plugins)}")

    yield register_plugin
    for plugin in plugins:
        pm.unregister(plugin)


@pytest.fixture
async def opened(folder: Path) -> AsyncGenerator[Callable[..., Any], None]:
    """``await opened(KEY=…)``: an open engine."""
    engines: list[LlmModel] = []

    async def make(**keys: str) -> LlmModel:
        engine = LlmModel(EngineContext("llm"), config_of(keys, LlmConfig))
        await engine.open()
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        await engine.close()
