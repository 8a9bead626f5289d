"""The conformance suite finds engines that break the contract, and passes one that keeps it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import SchemaError
from pydantic import Field, SecretStr

from enginehost.config import EngineConfig
from enginehost.engine import AbstractFunctionEngine
from enginehost.errors import ConfigError
from enginehost.signature import FunctionSignature
from enginehost.testing import (
    EngineContract,
    engine_registry,
    load_engine,
    make_context,
    make_engine,
    running_host,
)

SMSS = """
ENGINE_CLASS = Mine
FUNCTION_NAME = double
FUNCTION_DESCRIPTION = Twice the number
FUNCTION_PARAMETERS = [{"name": "n", "type": "number"}]
FUNCTION_REQUIRED_PARAMETERS = ["n"]
MINE_TOKEN = hunter2hunter2
"""


class Config(EngineConfig):
    mine_token: SecretStr = Field(default=SecretStr(""), description="A secret.")


class Sound(AbstractFunctionEngine):
    """Fails for a negative number, takes long for a million."""

    config_model = Config

    async def execute(self, parameters: dict[str, Any]) -> Any:
        if parameters["n"] < 0:
            raise ValueError("too small")
        if parameters["n"] == 1_000_000:
            await asyncio.sleep(300)
        return 2 * parameters["n"]


class TestSound(EngineContract):
    engine_class = Sound
    smss = SMSS
    examples = (({"n": 1}, 2), ({"n": 2.5}, 5.0), ({"n": 4}, lambda result: result == 8))
    failing_arguments = ({"n": -1},)
    slow_arguments: dict[str, Any] = {"n": 1_000_000}  # noqa: RUF012


class TestStreaming(EngineContract):
    class Stream(AbstractFunctionEngine):
        config_model = Config

        def execute(self, parameters: dict[str, Any]) -> Any:
            yield from range(int(parameters["n"]))

    engine_class = Stream
    smss = SMSS
    examples = (({"n": 2}, [0, 1]), ({"n": 0}, []))


def contract(engine: type[AbstractFunctionEngine], **attributes: Any) -> Any:
    """The suite for an engine, as an object whose tests can be called."""
    return type("Contract", (TestSound,), {"engine_class": engine, "answers_within": 0.2, **attributes})()


class WrongAnswer(Sound):
    async def execute(self, parameters: dict[str, Any]) -> Any:
        return 2


class MixesCalls(Sound):
    async def execute(self, parameters: dict[str, Any]) -> Any:
        self.n = parameters["n"]
        await asyncio.sleep(0)
        return 2 * self.n


class TellsSecrets(Sound):
    async def execute(self, parameters: dict[str, Any]) -> Any:
        self.context.log.warning("token %s", self.config.mine_token.get_secret_value())
        raise ValueError


class ShowsSecrets(Sound):
    def __repr__(self) -> str:
        return f"ShowsSecrets({self.config.mine_token.get_secret_value()})"


class NeverFails(Sound):
    async def execute(self, parameters: dict[str, Any]) -> Any:
        return 2 * parameters["n"]


class HearsNothing(Sound):
    """Answers a cancellation only when it is told to."""

    def __init__(self, context: Any, config: Any = None) -> None:
        super().__init__(context, config)
        self.over = asyncio.Event()

    async def execute(self, parameters: dict[str, Any]) -> Any:
        while parameters["n"] == 1_000_000 and not self.over.is_set():
            try:
                await self.over.wait()
            except asyncio.CancelledError:
                asyncio.get_running_loop().call_later(1, self.over.set)
        return 2 * parameters["n"]


class LeavesTask(Sound):
    async def open(self) -> None:
        self.task = asyncio.create_task(asyncio.sleep(30))


class LeavesThread(Sound):
    async def open(self) -> None:
        self.event = threading.Event()
        threading.Thread(target=self.event.wait, args=(10,), daemon=True).start()


class LeavesProcess(Sound):
    async def open(self) -> None:
        self.child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


class ClosesOnce(Sound):
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class InvalidSchema(Sound):
    def functions(self) -> Any:
        parameters = {"type": "object", "properties": {"n": {"type": "no such type"}}}
        return (self.context.function(lambda arguments, call: 1, parameters=parameters),)


class NoFunctions(Sound):
    def functions(self) -> Any:
        return ()


class OtherName(Sound):
    def get_function_name(self) -> str:
        return "other"


class Undocumented(Sound):
    config_model = type("Bare", (EngineConfig,), {"__annotations__": {"mine_token": str}, "mine_token": ""})


class Picky(Sound):
    def __init__(self, context: Any, config: Any = None) -> None:
        if "NOBODY_READS_THIS_KEY" in context.properties:
            raise ConfigError("what is this?")
        super().__init__(context, config)


@pytest.mark.parametrize(
    ("engine", "test", "why"),
    [
        (WrongAnswer, "test_examples_give_what_they_promise", "gave 2"),
        (MixesCalls, "test_calls_at_once_get_their_own_answers", "gave"),
        (NeverFails, "test_an_exception_becomes_execution_failed", "DID NOT RAISE"),
        (NeverFails, "test_a_deadline_ends_a_call", "DID NOT RAISE"),
        (NeverFails, "test_a_cancelled_call_ends_in_time", "ended with slow_arguments before"),
        (HearsNothing, "test_a_deadline_ends_a_call", "still runs after 0.2 s"),
        (HearsNothing, "test_a_cancelled_call_ends_in_time", "still runs after 0.2 s"),
        (ClosesOnce, "test_closing_twice_or_unopened_does_no_harm", "closed already"),
        (InvalidSchema, "test_every_function_has_valid_schemas", "no such type"),
        (NoFunctions, "test_every_function_has_valid_schemas", "has no function"),
        (OtherName, "test_semoss_s_methods_say_what_the_signature_says", "other"),
    ],
)
async def test_an_engine_that_breaks_a_promise_fails_the_suite(
    tmp_path: Path, engine: Any, test: str, why: str
) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception, SchemaError, RuntimeError), match=why):
        await getattr(contract(engine), test)(tmp_path)


@pytest.mark.parametrize("engine", [TellsSecrets, ShowsSecrets])
async def test_a_secret_in_a_log_or_a_repr_fails_the_suite(tmp_path: Path, engine: Any, caplog: Any) -> None:
    suite = contract(engine)
    with pytest.raises(AssertionError, match="hunter2"):
        await suite.test_secrets_stand_in_no_text(tmp_path, caplog)


@pytest.mark.parametrize(
    ("engine", "test"),
    [(Undocumented, "test_every_key_has_a_description"), (Picky, "test_an_unknown_key_is_a_warning")],
)
def test_keys_without_description_and_picky_engines_fail_the_suite(
    tmp_path: Path, engine: Any, test: str
) -> None:
    method = getattr(contract(engine), test)
    with pytest.raises((AssertionError, ValueError)):
        method() if engine is Undocumented else method(tmp_path)


async def stop_task(engine: Any) -> None:
    engine.task.cancel()


async def stop_thread(engine: Any) -> None:
    engine.event.set()


async def stop_process(engine: Any) -> None:
    engine.child.communicate()


@pytest.mark.parametrize(
    ("engine", "stop"), [(LeavesTask, stop_task), (LeavesThread, stop_thread), (LeavesProcess, stop_process)]
)
async def test_what_an_engine_leaves_behind_fails_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Any, stop: Callable[[Any], Any]
) -> None:
    made: list[Any] = []

    def keep(self: Any, context: Any, config: Any = None) -> None:
        AbstractFunctionEngine.__init__(self, context, config)
        made.append(self)

    monkeypatch.setattr(engine, "__init__", keep)
    monkeypatch.setattr("enginehost.testing.contract.LEFTOVER_SECONDS", 0.1)
    with pytest.raises(AssertionError, match=r"task|thread|process"):
        await contract(engine).test_opening_and_closing_leaves_nothing_behind(tmp_path)
    await stop(made[0])


async def test_a_suite_without_examples_says_so(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="at least one example"):
        await contract(Sound, examples=()).test_examples_give_what_they_promise(tmp_path)


def test_a_text_that_does_not_load_raises_what_was_found(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="FUNCTION_NAME"):
        make_engine(Sound, "ENGINE_CLASS = Mine", tmp_path)
    assert load_engine(Sound, "ENGINE_CLASS = Mine", tmp_path).engine is None


@pytest.mark.parametrize(("engine", "text"), [(Sound, "FUNCTION_NAME = x"), (int, SMSS)])
def test_a_text_without_a_class_and_a_class_that_is_none_are_errors(engine: Any, text: str) -> None:
    with pytest.raises(ConfigError):
        engine_registry(engine, text)


def test_a_context_as_the_host_makes_it(tmp_path: Path) -> None:
    context = make_context("add", description="Adds", path=tmp_path / "a.smss")
    assert context.signature == FunctionSignature("add", "Adds")
    assert context.folder == tmp_path


async def test_a_running_host_serves_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "smss"
    folder.mkdir()
    (folder / "double.smss").write_text(SMSS)
    async with running_host(folder, registry=engine_registry(Sound, SMSS)) as host:
        assert await host.call("double", {"n": 4}) == 8


def test_the_helpers_import_neither_pytest_nor_the_host() -> None:
    code = (
        "import sys, enginehost.testing;"
        "print([module for module in ('pytest', 'enginehost.host') if module in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
