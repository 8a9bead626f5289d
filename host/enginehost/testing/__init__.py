r"""For authors of engines and plugins: engines from a text, a running host, and a conformance suite.

::

    from enginehost.testing import EngineContract

    class TestMyEngine(EngineContract):
        engine_class = MyEngine
        smss = "ENGINE_CLASS = Mine\nFUNCTION_NAME = double\n…"
        examples = [({"n": 2}, 4)]

Fixtures are in ``enginehost.testing.fixtures`` (``pytest_plugins = ["enginehost.testing.fixtures"]`` in
the top-level ``conftest.py``), hypothesis strategies in ``enginehost.testing.strategies``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from enginehost.testing.engines import engine_registry, load_engine, make_context, make_engine, running_host

if TYPE_CHECKING:
    from enginehost.testing.contract import EngineContract, Example
    from enginehost.testing.model_contract import ModelContract

__all__ = [
    "EngineContract",
    "Example",
    "ModelContract",
    "engine_registry",
    "load_engine",
    "make_context",
    "make_engine",
    "running_host",
]


def __getattr__(name: str) -> Any:
    """The conformance suite needs pytest, which the rest does not."""
    if name == "ModelContract":
        home = "model_contract"
    elif name in ("EngineContract", "Example"):
        home = "contract"
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest

    pytest.register_assert_rewrite("enginehost.testing.file_contract", f"enginehost.testing.{home}")
    return getattr(import_module(f"enginehost.testing.{home}"), name)
