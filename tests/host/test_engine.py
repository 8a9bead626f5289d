"""What an author of an engine can rely on."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest

from enginehost.engine import (
    AbstractFunctionEngine,
    Call,
    EngineContext,
    Function,
    FunctionParameter,
    IFunctionEngine,
    Limits,
    RunMode,
    current_call,
    run_mode,
)
from enginehost.signature import FunctionSignature

SIGNATURE = FunctionSignature(
    "add",
    "Adds.",
    {
        "type": "object",
        "properties": {"a": {"type": "number", "description": "one"}, "b": {"type": ["number", "null"]}},
        "required": ["a"],
    },
)
CONTEXT = EngineContext("id", signature=SIGNATURE, limits=Limits(timeout=3), bind={"user": "$caller.subject"})


class Plain(AbstractFunctionEngine):
    def execute(self, parameters: dict[str, Any]) -> Any:
        return parameters["a"]


class WithCall(AbstractFunctionEngine):
    def execute(self, parameters: dict[str, Any], call: Call) -> Any:  # type: ignore[override]
        return call.function


class Waiting(AbstractFunctionEngine):
    async def execute(self, parameters: dict[str, Any], call: Call | None = None) -> Any:
        return call is not None


class Items(AbstractFunctionEngine):
    def execute(self, parameters: dict[str, Any]) -> Generator[int, None, None]:
        yield 1


class WaitingItems(AbstractFunctionEngine):
    async def execute(self, parameters: dict[str, Any]) -> AsyncGenerator[int, None]:
        yield 1


@pytest.mark.parametrize(
    ("engine_class", "mode"),
    [
        (Plain, RunMode.SYNC),
        (WithCall, RunMode.SYNC),
        (Waiting, RunMode.ASYNC),
        (Items, RunMode.SYNC_STREAM),
        (WaitingItems, RunMode.ASYNC_STREAM),
    ],
)
def test_execute_runs_as_it_was_written(engine_class: type[AbstractFunctionEngine], mode: RunMode) -> None:
    engine = engine_class(CONTEXT)
    assert isinstance(engine, IFunctionEngine)
    for _ in range(2):  # its shape is looked up once
        (function,) = engine.functions()
        assert function.mode is mode
        assert function.signature.streaming is mode.streams
        assert (function.signature.name, function.limits, function.bind) == (
            "add",
            CONTEXT.limits,
            CONTEXT.bind,
        )


def test_execute_gets_the_call_where_it_asks_for_it() -> None:
    call = Call("add")
    (plain,), (with_call,) = Plain(CONTEXT).functions(), WithCall(CONTEXT).functions()
    assert plain.run({"a": 1}, call) == 1
    assert with_call.run({}, call) == "add"


async def test_an_optional_call_is_given() -> None:
    (function,) = Waiting(CONTEXT).functions()
    assert await function.run({}, Call("add")) is True


def test_an_engine_without_execute_says_what_to_write() -> None:
    with pytest.raises(NotImplementedError, match="AbstractFunctionEngine must define execute"):
        AbstractFunctionEngine(CONTEXT).execute({})


def test_semosss_names_say_what_the_signature_says() -> None:
    engine = Plain(CONTEXT)
    assert (engine.get_function_name(), engine.get_function_description()) == ("add", "Adds.")
    assert engine.get_parameters() == [
        FunctionParameter("a", "number", "one", required=True),
        FunctionParameter("b", "number|null"),
    ]
    assert engine.get_required_parameters() == ["a"]
    definition = engine.get_function_definition_json()
    assert definition == engine.get_function_defintion_json()
    assert definition["parameters"] == SIGNATURE.parameters
    assert engine.build_openai_function_engine_tool_map()["function"]["name"] == "add"
    assert engine.build_bedrock_tool_spec()["toolSpec"]["name"] == "add"


def test_a_context_without_a_signature_names_the_function_after_the_engine() -> None:
    async def run(arguments: dict[str, Any], call: Call) -> None:
        """Nothing."""

    function = EngineContext("id").function(run)
    assert (function.signature.name, function.mode) == ("id", RunMode.ASYNC)
    named = EngineContext("id").function(run, name="other", tags=("x",))
    assert (named.signature.name, named.signature.tags) == ("other", ("x",))


def test_a_contexts_folder_is_that_of_its_file() -> None:
    assert EngineContext("id", path=Path("/x/y.smss")).folder == Path("/x")
    assert EngineContext("id").folder == Path()
    EngineContext("id").changed()  # nobody listens


def test_no_secret_stands_in_the_text_of_a_context_or_a_function() -> None:
    context = EngineContext("id", properties={"API_KEY": "hunter22"}, bind={"key": "hunter22"})
    assert "hunter22" not in repr(context)
    assert "hunter22" not in repr(Function(SIGNATURE, print, bind=context.bind))


def test_a_call_has_w3c_ids_and_never_less_than_no_time() -> None:
    call = Call("f", span=0xAB, trace=0xCD, deadline=time.monotonic() - 5)
    assert (call.call_id, call.chain_id) == ("00000000000000ab", f"{0xCD:032x}")
    assert call.remaining == 0.0
    assert Call("f").remaining is None
    assert current_call() is None


def test_a_mode_is_read_off_the_function() -> None:
    assert run_mode(lambda: None) is RunMode.SYNC
    assert [mode.streams for mode in RunMode] == [False, False, True, True]
