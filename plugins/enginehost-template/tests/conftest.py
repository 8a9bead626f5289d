"""The tests run from a checkout too, before the plugin is installed."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The host runs on asyncio."""
    return "asyncio"
