"""Reactor: a class beside the smss file, run in a worker."""

from __future__ import annotations

import os
import textwrap
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from enginehost.engine import Call, EngineContext, FunctionSignature
from enginehost.errors import ConfigError
from enginehost_engines.reactor import ReactorConfig, ReactorEngine
from enginehost_engines.worker.failures import FunctionRaised

from .conftest import children, function_of

MODULE = '''
import os
from enginehost.reactor import NounMetadata, PixelDataType, Reactor

class JoinReactor(Reactor):
    """Joins words."""
    keys_to_get = ["words", "separator", "limit"]
    key_required = [1, 0, 0]
    key_descriptions = {"words": "What to join"}

    def execute(self):
        if self.key_value.get("separator") == "!":
            return NounMetadata.error("not this one")
        text = self.key_value.get("separator", "-").join(self.get_nouns("words"))
        return NounMetadata(text[: self.key_value.get("limit")], PixelDataType.CONST_STRING)

class Base(Reactor):
    def __init__(self):
        self.keysToGet = ["object", "n" + "ame"]

class Inherited(Base):
    def execute(self):
        return [self.key_value["object"], os.getpid()]

class LaterReactor(Reactor):
    async def execute(self):
        return os.getpid()
'''

Make = Callable[..., ReactorEngine]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncGenerator[Make, None]:
    """Makes reactor engines of the module above; afterwards no process is left."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "words.py").write_text(textwrap.dedent(MODULE))
    before, made = children(), list[ReactorEngine]()

    def build(path: str, signature: FunctionSignature | None = None, **context: Any) -> ReactorEngine:
        born = EngineContext("r", path=tmp_path / "r.smss", signature=signature, **context)
        made.append(ReactorEngine(born, ReactorConfig(reactor_class_name=path)))
        return made[-1]

    yield build
    for engine in made:
        await engine.close()
    assert children() <= before


async def call(engine: ReactorEngine, **arguments: Any) -> Any:
    return await function_of(engine).run(arguments, Call("r"))


async def test_a_reactor_answers_with_the_value_of_its_noun(make: Make) -> None:
    engine = make("shop.words.JoinReactor")
    assert await call(engine, words=["a", "b"], separator="+") == "a+b"
    assert await call(engine, words="one") == "one"


async def test_what_the_file_leaves_out_comes_from_the_class_without_running_it(make: Make) -> None:
    before = children()
    engine = make("shop.words:JoinReactor", bind={"separator": "+"})
    await engine.open()
    signature = function_of(engine).signature
    assert signature.name == "Join"
    assert signature.description == "Joins words."
    assert signature.parameters == {
        "type": "object",
        "properties": {"words": {"description": "What to join"}, "limit": {"type": "integer"}},
        "required": ["words"],
    }
    assert children() == before


async def test_what_the_file_declares_stays(make: Make) -> None:
    declared = FunctionSignature("j", "d", {"type": "object", "properties": {"words": {"type": "array"}}})
    assert function_of(make("shop.words.JoinReactor", declared)).signature == declared


async def test_inherited_keys_are_asked_of_the_class_when_it_opens(make: Make) -> None:
    engine = make("shop.words.Inherited")
    await engine.open()
    assert function_of(engine).signature.parameters == {
        "type": "object",
        "properties": {"object": {"type": "object"}, "name": {}},
        "required": ["object", "name"],
    }
    value, pid = await call(engine, object={"a": 1}, name="x")
    assert value == {"a": 1}
    assert pid != os.getpid()


async def test_an_async_reactor_runs_in_a_worker_too(make: Make) -> None:
    assert await call(make("shop.words.LaterReactor")) != os.getpid()


async def test_an_error_noun_and_missing_nouns_fail_the_call(make: Make) -> None:
    engine = make("shop.words.JoinReactor")
    with pytest.raises(FunctionRaised, match="not this one") as caught:
        await call(engine, words="a", separator="!")
    assert type(caught.value).__name__ == "ReactorFailed"
    with pytest.raises(FunctionRaised, match="must define words"):
        await call(engine)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("shop.words.Jion", "has no class Jion"),
        ("nowhere_at_all.X", "no module nowhere_at_all"),
        ("not a path", "no dotted path"),
        ("", "no dotted path"),
    ],
)
async def test_a_class_that_is_not_there_is_an_error_of_the_key(make: Make, path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make(path)
    assert caught.value.key == "REACTOR_CLASS_NAME"
