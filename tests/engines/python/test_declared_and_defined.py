"""LocalPython: what the smss file declares against what the script defines, seen before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from enginehost.engine import Call, FunctionSignature, RunMode
from enginehost.errors import ConfigError, EngineUnavailable

from .conftest import Engines, function_of


def warnings_of(engines: Engines, script: str, parameters: dict[str, Any], **context: Any) -> list[str]:
    """The messages about function ``f`` of ``script``."""
    found: list[str] = []
    schema = {"type": "object", **parameters}

    def warn(key: str, code: str, message: str, hint: str = "") -> None:
        assert (key, code) == ("FUNCTION_PARAMETERS", "signature-mismatch")
        assert hint
        found.append(message)

    signature = FunctionSignature("f", "Does it.", parameters=schema)
    properties = {"FUNCTION_PARAMETERS": "[…]"}
    config = {"init_function_engine": context.pop("init", "")}
    engines.make(
        "f",
        script=script,
        context={"signature": signature, "properties": properties, "warn": warn, **context},
        **config,
    )
    return found


ONE = {"properties": {"a": {}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("script", "parameters", "message"),
    [
        ("def f(b=1): pass", ONE, "f() takes no parameter 'a'"),
        ("def f(a, b): pass", ONE, "f() requires 'b', which is not declared"),
        ("def f(a, *, b): pass", ONE, "f() requires 'b', which is not declared"),
        ("def f(b, /): pass", {}, "f() requires 'b', which is not declared"),
        ("def f(a): pass", {"properties": {"a": {}}}, "f() requires 'a', which callers may leave out"),
        ("async def f(*a): yield 1", ONE, "f() takes no parameter 'a'"),
    ],
)
async def test_what_does_not_fit_is_a_warning(
    engines: Engines, script: str, parameters: dict[str, Any], message: str
) -> None:
    assert warnings_of(engines, script, parameters) == [message]


@pytest.mark.parametrize(
    ("script", "parameters"),
    [
        ("def f(a): pass", ONE),
        ("def f(a, b=1, *rest, c=2): pass", ONE),
        ("def f(**all): pass", ONE),
        ("def f(a, /): pass", ONE),
        ("def f(a): pass", {"properties": {"a": {"default": 1}}}),
        ("def f(a): pass", {"$ref": "#/$defs/x"}),
        ("@decorated\ndef f(): pass", ONE),
        ("def f(): pass\nf = other", ONE),
        ("from x import f", ONE),
    ],
)
async def test_what_fits_or_cannot_be_known_is_none(
    engines: Engines, script: str, parameters: dict[str, Any]
) -> None:
    assert warnings_of(engines, script, parameters) == []


async def test_bound_parameters_count_as_declared(engines: Engines) -> None:
    assert warnings_of(engines, "def f(a, b): pass", ONE, bind={"b": 1}) == []
    assert warnings_of(engines, "def f(a): pass", ONE, bind={"b": 1}) == ["f() takes no parameter 'b'"]


async def test_a_function_that_init_replaces_is_not_judged(engines: Engines) -> None:
    assert warnings_of(engines, "def f(): pass", ONE, init="f = print") == []


MADE = {
    "exec": ("exec('def f(x): return x')", RunMode.SYNC),
    "globals": ("globals()['f'] = lambda x: x", RunMode.SYNC),
    "partial": ("from functools import partial\ndef g(y, x): return x\nf = partial(g, 1)", RunMode.SYNC),
    "getattr": ("def __getattr__(name):\n    return lambda x: x", RunMode.SYNC),
    "global": ("def make():\n    global f\n    f = lambda x: x\nmake()", RunMode.SYNC),
    "async": ("exec('async def f(x): return x')", RunMode.ASYNC),
    "instance": ("class C:\n    async def __call__(self, x): return x\nf = C()", RunMode.ASYNC),
    "decorated": (
        "import functools\ndef d(g):\n    @functools.wraps(g)\n    def w(x): return g(x)\n    return w\n"
        "@d\nasync def f(x): return x",
        RunMode.ASYNC,
    ),
}


@pytest.mark.parametrize("how", MADE)
async def test_a_function_that_only_running_makes_is_taken_and_its_kind_learnt(
    engines: Engines, how: str
) -> None:
    script, mode = MADE[how]
    engine = engines.make("f", script=script)
    assert await engines.call(engine, x=1) == 1
    assert await engines.call(engine, x=2) == 2
    assert engine._functions[0].mode is mode


async def test_a_made_generator_collects_once_and_streams_from_then_on(engines: Engines) -> None:
    told: list[None] = []
    script = "exec('def f(x):\\n    yield from range(x)')"
    engine = engines.make("f", script=script, context={"changed": lambda: told.append(None)})
    assert await engines.call(engine, x=3) == [0, 1, 2]
    assert told
    assert function_of(engine).mode is RunMode.ASYNC_STREAM
    assert [item async for item in engines.stream(engine, x=3)] == [0, 1, 2]


async def test_a_function_that_running_does_not_make_fails_the_engine(engines: Engines) -> None:
    failed: list[str] = []
    hears = {"failed": lambda reason, cause: failed.append(reason)}
    engine = engines.make("f", script="exec('def g(): pass')", context=hears)
    with pytest.raises(EngineUnavailable, match="has no function f"):
        await function_of(engine).run({}, Call("f"))
    assert failed == ["the script has no function f"]


async def test_init_may_make_the_function(engines: Engines) -> None:
    engine = engines.make("f", script="g = lambda x: x", init_function_engine="f = g")
    assert await engines.call(engine, x=1) == 1


@pytest.mark.parametrize("script", ["def g(): pass", "class C:\n    def f(self): pass", "import os"])
async def test_a_function_that_surely_is_not_there_is_an_error(engines: Engines, script: str) -> None:
    with pytest.raises(ConfigError, match="has no function f"):
        engines.make("f", script=script)
