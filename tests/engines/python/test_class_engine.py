"""``ENGINE_CLASS = package.module:Class``: an engine in a process of its own."""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from enginehost.caller import Caller
from enginehost.engine import Approval, Call, EngineContext, FunctionSignature, Limits, RunMode
from enginehost.errors import ConfigError, OutcomeUnknown
from enginehost_engines.class_engine import ClassEngine
from enginehost_engines.worker import process

from .conftest import alive, children, eventually, function_of

MODULE = """
import asyncio, os, time
from dataclasses import replace
from pydantic import Field, SecretStr
from enginehost.config import EngineConfig
from enginehost.engine import AbstractFunctionEngine, FunctionSignature, RunMode, current_call

class Settings(EngineConfig):
    greeting: str
    numbers: list[int] = Field(default_factory=list)
    token: SecretStr = SecretStr("")

class Greeter(AbstractFunctionEngine):
    config_model = Settings

    async def open(self):
        self.opened = os.getpid()

    async def close(self):
        (self.context.folder / "closed").touch()

    def execute(self, parameters, call):
        if parameters.get("stuck"):
            (self.context.folder / "stuck").touch()
            time.sleep(3600)
        if parameters.get("leave"):
            os._exit(1)
        return {
            "text": self.config.greeting + parameters["name"],
            "numbers": self.config.numbers,
            "token": self.config.token.get_secret_value(),
            "caller": call.caller.subject,
            "scopes": sorted(call.caller.scopes),
            "chain": call.chain_id,
            "same": current_call() is call,
            "time": call.remaining is not None,
            "pid": self.opened,
        }

class Many(AbstractFunctionEngine):
    requires_signature = False
    extra = False

    def functions(self):
        async def one(parameters, call):
            return 1
        def many(parameters, call):
            yield from range(parameters["n"])
        async def grow(parameters, call):
            self.extra = True
            self.context.changed()
        names = {"one": one, "many": many, "grow": grow} | ({"extra": one} if self.extra else {})
        for name, run in names.items():
            yield self.context.function(run, name=name)

class Broken(AbstractFunctionEngine):
    async def open(self):
        raise RuntimeError("cannot open")

class NoEngine:
    pass
"""

Make = Callable[..., ClassEngine]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncGenerator[Make, None]:
    """Makes class engines of the module above; afterwards no process is left."""
    (tmp_path / "greeter.py").write_text(textwrap.dedent(MODULE))
    before, made = children(), list[ClassEngine]()

    def build(name: str, signature: str | None = "greet", changed: Any = None, **keys: str) -> ClassEngine:
        context = EngineContext(
            "g",
            path=tmp_path / "g.smss",
            properties={"ENGINE_CLASS": f"greeter:{name}"} | keys,
            signature=FunctionSignature(signature, tags=("t",)) if signature else None,
            limits=Limits(timeout=3),
            approval=Approval.ALWAYS,
            **({"changed": changed} if changed else {}),
        )
        made.append(ClassEngine(context))
        return made[-1]

    yield build
    for engine in made:
        await engine.close()
    assert children() <= before


def functions(engine: ClassEngine) -> dict[str, Any]:
    return {function.signature.name: function for function in engine.functions()}


async def test_an_engine_class_runs_in_a_process_of_its_own_with_its_config_and_its_caller(
    make: Make,
) -> None:
    engine = make("Greeter", GREETING=" a\\b ${X} ", NUMBERS="[1, 2]", TOKEN=" s=3 ")
    await engine.open()
    function = function_of(engine)
    assert function.signature == FunctionSignature("greet", tags=("t",))
    assert (function.limits, function.approval) == (Limits(timeout=3), Approval.ALWAYS)
    call = Call("greet", Caller("ann", scopes=frozenset({"b", "a"})), deadline=1e12, span=1, trace=2**100)
    answer = await function.run({"name": "Bo"}, call)
    assert answer.pop("pid") not in (os.getpid(), 0)
    assert answer == {
        "text": "a\\b ${X}Bo",
        "numbers": [1, 2],
        "token": " s=3 ",
        "caller": "ann",
        "scopes": ["a", "b"],
        "chain": call.chain_id,
        "same": True,
        "time": True,
    }


async def test_closing_closes_the_engine_in_its_process(make: Make, tmp_path: Path) -> None:
    engine = make("Greeter", GREETING="hi ")
    await engine.open()
    await engine.close()
    assert (tmp_path / "closed").exists()


async def test_an_engine_may_have_many_functions_and_tell_of_new_ones(make: Make) -> None:
    changed = asyncio.Event()
    engine = make("Many", signature=None, changed=changed.set)
    assert functions(engine) == {}
    await engine.open()
    there = functions(engine)
    assert list(there) == ["one", "many", "grow"]
    assert there["many"].mode is RunMode.ASYNC_STREAM
    assert await there["one"].run({}, Call("one")) == 1
    assert [item async for item in there["many"].run({"n": 40}, Call("many"))] == list(range(40))
    await there["grow"].run({}, Call("grow"))
    async with asyncio.timeout(10):
        await changed.wait()
    assert "extra" in functions(engine)


async def test_an_engine_whose_process_died_is_opened_again_at_the_next_call(make: Make) -> None:
    engine = make("Greeter", GREETING="hi ")
    await engine.open()
    run = function_of(engine).run
    first = await run({"name": "x"}, Call("greet"))
    answers = await asyncio.gather(
        *(run({"name": "x", "leave": True}, Call("greet")) for _ in range(2)), return_exceptions=True
    )
    assert {type(answer) for answer in answers} == {OutcomeUnknown}
    assert (await run({"name": "x"}, Call("greet")))["pid"] != first["pid"]


async def test_a_stuck_sync_function_is_killed_when_its_call_is_cancelled(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CANCEL_SECONDS", 0.2)
    engine = make("Greeter", GREETING="hi ")
    await engine.open()
    run = function_of(engine).run
    pid = (await run({"name": "x"}, Call("greet")))["pid"]
    call = asyncio.ensure_future(run({"name": "x", "stuck": True}, Call("greet")))
    await eventually((tmp_path / "stuck").exists)
    call.cancel()
    await eventually(lambda: not alive(pid))


@pytest.mark.parametrize(
    ("name", "signature", "message"),
    [
        ("Greeter", "greet", "GREETING"),
        ("Greeter", None, "FUNCTION_NAME"),
        ("Broken", "greet", "RuntimeError: cannot open"),
        ("NoEngine", "greet", "no AbstractFunctionEngine"),
    ],
)
async def test_an_engine_that_cannot_open_says_why(
    make: Make, name: str, signature: str | None, message: str
) -> None:
    with pytest.raises(Exception, match=message):
        await make(name, signature).open()


async def test_a_class_that_is_not_there_is_an_error_of_the_key(make: Make) -> None:
    with pytest.raises(ConfigError, match="has no class Gone") as caught:
        make("Gone")
    assert caught.value.key == "ENGINE_CLASS"
