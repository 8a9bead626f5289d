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

from typing import TYPE_CHECKING, Any

from enginehost.testing.engines import engine_registry, load_engine, make_context, make_engine, running_host

if TYPE_CHECKING:
    from enginehost.testing.contract import EngineContract, Example

__all__ = [
    "EngineContract",
    "Example",
    "engine_registry",
    "load_engine",
    "make_context",
    "make_engine",
    "running_host",
]


def __getattr__(name: str) -> Any:
    """The conformance suite needs pytest, which the rest does not."""
    if name not in ("EngineContract", "Example"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest

    pytest.register_assert_rewrite("enginehost.testing.contract")
    from enginehost.testing import contract

    return getattr(contract, name)
