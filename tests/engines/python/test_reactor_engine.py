"""Reactor: a class beside the smss file, run in a worker."""

from __future__ import annotations

import os
import textwrap
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.engine import Call, EngineContext, FunctionSignature
from enginehost.errors import ConfigError
from enginehost.reactor import Reactor, describe
from enginehost_engines.dotted import find_dotted
from enginehost_engines.reactor import ReactorConfig, ReactorEngine
from enginehost_engines.reactor_source import read_nouns
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

class WarnsReactor(Reactor):
    """Warns."""
    def execute(self):
        noun = NounMetadata.warning("half of it is missing")
        noun.add_additional_return(NounMetadata.success("too quiet"))
        return noun

class TotalReactor(Reactor):
    """Asks others, by name and by class."""
    keys_to_get = ["words"]
    key_types = {"words": list[str]}
    def execute(self):
        joined = self.run_reactor("Join", {"words": self.key_value["words"]}, "+")
        if joined.value == "x+x":
            return self.run_reactor(JoinReactor, {"words": "a", "separator": "!"})
        return [joined.value, self.run_reactor("shop.other.PidReactor").value == os.getpid()]

class CountReactor(Reactor):
    """Counts."""
    keys_to_get = ["to"]
    key_types = {"to": int}
    def execute(self):
        for number in range(self.key_value["to"]):
            yield NounMetadata(number)

class CountLater(CountReactor):
    async def execute(self):
        for number in range(self.key_value["to"]):
            yield number

class InheritedCount(CountReactor):
    pass

class KnownWhenLoaded(Reactor):
    """Not this."""
    keys_to_get = ["n"]
    def getReactorDescription(self):
        return "This."
    def getKeyTypeForMCP(self, key):
        return "integer"
    def getResponseSchema(self):
        return {"type": "integer"}
    execute = lambda self: self.key_value["n"]
'''

OTHER = """
import os
from enginehost.reactor import Reactor
from shop import words

class PidReactor(Reactor):
    def execute(self):
        return os.getpid()

class FarCount(words.CountReactor):
    def unrelated(self):
        pass
"""

Make = Callable[..., ReactorEngine]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncGenerator[Make, None]:
    """Makes reactor engines of the module above; afterwards no process is left."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "words.py").write_text(textwrap.dedent(MODULE))
    (package / "other.py").write_text(OTHER)
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


async def test_a_warning_is_the_result_and_stands_in_the_hosts_log(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    assert await call(make("shop.words.WarnsReactor")) == "half of it is missing"
    assert [one.getMessage() for one in caplog.records] == ["WarnsReactor: half of it is missing"]


async def test_reactors_run_others_in_the_same_process(make: Make) -> None:
    engine = make("shop.words.TotalReactor")
    assert await call(engine, words=["a", "b"]) == ["a+b", True]
    with pytest.raises(FunctionRaised, match="not this one") as caught:
        await call(engine, words=["x", "x"])
    assert type(caught.value).__name__ == "ReactorFailed"


@pytest.mark.parametrize("name", ["words.CountReactor", "words.CountLater", "words.InheritedCount"])
async def test_an_execute_that_yields_streams(make: Make, name: str) -> None:
    function = function_of(make(f"shop.{name}"))
    assert function.signature.streaming
    assert [item async for item in function.run({"to": 3}, Call("r"))] == [0, 1, 2]
    left = function.run({"to": 1_000_000}, Call("r"))
    assert await anext(left) == 0
    await left.aclose()


async def test_what_only_the_loaded_class_can_tell_is_asked_when_it_opens(make: Make) -> None:
    engine = make("shop.words.KnownWhenLoaded")
    await engine.open()
    signature = function_of(engine).signature
    assert signature.description == "This."
    assert signature.properties == {"n": {"type": "integer"}}
    assert signature.result == {"type": "integer"}
    engine = make("shop.other.FarCount")
    await engine.open()
    assert function_of(engine).signature.streaming


async def test_a_declared_function_learns_at_its_first_call_that_it_streams(make: Make) -> None:
    declared = FunctionSignature("c", "d", {"type": "object", "properties": {"to": {"type": "integer"}}})
    changes: list[int] = []
    engine = make("shop.other.FarCount", declared, changed=lambda: changes.append(1))
    await engine.open()
    assert not function_of(engine).signature.streaming
    assert await call(engine, to=2) == [0, 1]
    assert changes
    function = function_of(engine)
    assert function.signature.streaming
    assert [item async for item in function.run({"to": 2}, Call("r"))] == [0, 1]


CLASSES = st.fixed_dictionaries(
    {},
    optional={
        "keys_to_get": st.sampled_from(["('a', 'b,c', 'limit')", "['a']", "[]", "list('ab')", "['a'] * 2"]),
        "key_required": st.sampled_from(["(1, 0)", "[0, 0, 0]", "[1, 1, 1, 1]", "()", "[True]"]),
        "key_multi": st.sampled_from(["[1]", "(0, 1, 1)", "()"]),
        "key_types": st.sampled_from(
            ["{'a': int}", "{'a': 'list[str]', 'b': {'enum': [1]}}", "{'b': list[int]}", "dict(a=str)", "{}"]
        ),
        "key_descriptions": st.sampled_from(["{'a': 'The first'}", "{'z': 'nobody'}"]),
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(attributes=CLASSES, on_self=st.booleans(), more=st.sampled_from(["", "self.keys_to_get = ['q']"]))
def test_what_is_read_of_the_text_is_what_the_class_says(
    tmp_path: Path, attributes: dict[str, str], on_self: bool, more: str
) -> None:
    lines = [f"{'self.' if on_self else ''}{name} = {text}" for name, text in attributes.items()]
    inner = [*(lines if on_self else ()), *([f"if len('x'): {more}"] if more else ()), "pass"]
    body = "".join(f"    {line}\n" for line in ([] if on_self else lines))
    init = "    def __init__(self):\n" + "".join(f"        {line}\n" for line in inner)
    text = f'class R(Reactor):\n    """Doc."""\n{body}{init}    def execute(self):\n        return 1\n'
    names: dict[str, Any] = {"Reactor": Reactor, "__name__": "made"}
    exec(text, names)
    (tmp_path / f"m{abs(hash(text))}.py").write_text(text)
    read = read_nouns(find_dotted(f"m{abs(hash(text))}.R", [tmp_path], "KEY"))
    assert read is None or read == describe(names["R"])
    assert read is None or not more
