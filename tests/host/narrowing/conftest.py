"""Functions and hosts for tests of narrowing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from enginehost.engine import AbstractFunctionEngine, EngineContext, Function, run_mode
from enginehost.signature import FunctionSignature


async def _run(parameters: dict[str, Any], call: Any) -> str:
    return call.function


def _function(name: str, description: str = "", *tags: str, **properties: str) -> Function:
    schema = {
        "type": "object",
        "properties": {one: {"type": "string", "description": text} for one, text in properties.items()},
    }
    return Function(FunctionSignature(name, description, schema, tags=tags), _run, run_mode(_run))


class _Functions(AbstractFunctionEngine):
    def __init__(self, functions: tuple[Function, ...]) -> None:
        super().__init__(EngineContext("many"))
        self._functions = functions

    def functions(self) -> tuple[Function, ...]:
        return self._functions


@pytest.fixture
def function() -> Callable[..., Function]:
    """Makes a function that gives its own name: ``function(name, description, *tags, parameter=text)``."""
    return _function


@pytest.fixture
def engine() -> Callable[..., AbstractFunctionEngine]:
    """Makes an engine of functions."""
    return lambda *functions: _Functions(functions)
