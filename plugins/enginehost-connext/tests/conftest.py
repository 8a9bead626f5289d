"""The tests run from a checkout too, before the plugin is installed.

What can be tested without a licence is tested on Connext's own types, samples, quality of service and wait
sets; only the entities, which need one, are played by ``played.py``. Where a licence is at hand the same
tests run on Connext itself too.
"""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The host runs on asyncio."""
    return "asyncio"
