# ruff: noqa: S101 - a conformance suite is made of asserts
"""The conformance suite for engines: subclass it in a test module and fill in the attributes."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from enginehost.engine import AbstractFunctionEngine, Call, Function, RunMode
from enginehost.errors import CallTimeout, EngineHostError, ExecutionFailed, InvalidArguments
from enginehost.host import Host
from enginehost.specs import SPEC_KINDS, to_spec
from enginehost.testing.engines import load_engine
from enginehost.testing.file_contract import LEFTOVER_SECONDS, FileContract, secrets_in
from enginehost.testing.leftovers import leftovers, snapshot

CALLER_LEAVES = (0.0, 0.02, 0.3)
"""Seconds after which a caller goes away: before the function begins, on the way to it, and inside."""


class Example(NamedTuple):
    """One call: ``expected`` is the result (of a streaming function, the list of items) or a check of it.

    ``function`` names one of several; left out, the engine has one.
    """

    arguments: Mapping[str, Any]
    expected: Any
    function: str = ""


class EngineContract(FileContract):
    """What every engine kind must do. All calls go through a host, as a user's do.

    Subclasses set :attr:`engine_class`, :attr:`smss` and :attr:`examples`; the rest switches further
    checks on.
    """

    examples: ClassVar[Sequence[tuple[Any, ...]]]
    """Calls that succeed: :class:`Example` or ``(arguments, expected)``. Different ones, where possible."""

    failing_arguments: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Valid arguments with which the first example's function raises."""

    slow_arguments: ClassVar[Mapping[str, Any] | None] = None
    """Arguments with which the first example's function takes longer than :attr:`answers_within`."""

    answers_within: ClassVar[float] = 10.0
    """Seconds after which a cancelled or late call counts as hung: it waits for its function, it seems.

    An engine that keeps its promise answers at once; the rest is for a busy machine.
    """

    # The file

    def test_the_file_opens_without_a_finding(self, tmp_path: Path) -> None:
        """``smss`` loads, and the host has nothing to say about it."""
        self.prepare(tmp_path)
        loaded = load_engine(self.engine_class, self.smss, tmp_path, access=self.access)
        assert not loaded.record.diagnostics
        assert loaded.engine is not None

    # The functions

    async def test_every_function_has_valid_schemas(self, tmp_path: Path) -> None:
        """Parameters are an object schema, and all schemas are valid JSON Schema 2020-12."""
        from jsonschema import Draft202012Validator

        async with self._opened(tmp_path) as engine:
            functions = list(engine.functions())
            assert functions, "the engine has no function"
            for function in functions:
                signature = function.signature
                assert signature.name
                assert signature.parameters.get("type") == "object"
                Draft202012Validator.check_schema(dict(signature.parameters))
                Draft202012Validator.check_schema(dict(signature.result or {}))
                assert signature.streaming == function.mode.streams

    async def test_every_kind_of_tool_can_be_made_of_it(self, tmp_path: Path) -> None:
        """The signature maps to each face's format, as JSON."""
        async with self._opened(tmp_path) as engine:
            for function in engine.functions():
                for kind in SPEC_KINDS:
                    assert json.loads(json.dumps(to_spec(function.signature, kind)))

    async def test_semoss_s_methods_say_what_the_signature_says(self, tmp_path: Path) -> None:
        """``get_function_name`` and its like agree with the first function's signature."""
        async with self._opened(tmp_path) as engine:
            if not isinstance(engine, AbstractFunctionEngine):
                pytest.skip("does not apply: not an AbstractFunctionEngine")
            signature = next(iter(engine.functions())).signature
            assert engine.get_function_name() == signature.name
            assert engine.get_function_description() == signature.description
            assert [parameter.name for parameter in engine.get_parameters()] == list(signature.properties)
            assert engine.get_required_parameters() == list(signature.required)
            definition = engine.get_function_definition_json()
            assert definition["parameters"] == signature.parameters
            assert engine.get_function_defintion_json() == definition
            assert engine.build_openai_function_engine_tool_map() == to_spec(signature, "openai")
            assert engine.build_bedrock_tool_spec() == to_spec(signature, "bedrock")

    # Calls

    async def test_examples_give_what_they_promise(self, tmp_path: Path) -> None:
        """Each example, one after the other."""
        async with self._host(tmp_path) as host:
            for example in self._examples():
                await self._check(host, example)

    async def test_calls_at_once_get_their_own_answers(self, tmp_path: Path) -> None:
        """Many calls in flight do not mix."""
        examples = self._examples()
        many = [examples[n % len(examples)] for n in range(self.concurrency)]
        async with self._host(tmp_path) as host:
            await asyncio.gather(*(self._check(host, example) for example in many))

    async def test_arguments_that_do_not_fit_are_refused(self, tmp_path: Path) -> None:
        """A missing and an undeclared argument never reach the engine."""
        example = self._examples()[0]
        async with self._host(tmp_path) as host:
            name = self._name(host, example)
            signature = host.entry(name).signature
            wrong = [{k: v for k, v in example.arguments.items() if k != left} for left in signature.required]
            if not signature.parameters.get("additionalProperties"):
                wrong.append({**example.arguments, "nobody_declared_this": 1})
            for arguments in wrong:
                with pytest.raises(InvalidArguments):
                    await host.call(name, arguments)

    async def test_an_exception_becomes_execution_failed(self, tmp_path: Path) -> None:
        """The caller reads what went wrong, but no traceback and no path; the next call works."""
        if not self.failing_arguments:
            pytest.skip("does not apply: no failing_arguments")
        example = self._examples()[0]
        async with self._host(tmp_path) as host:
            name = self._name(host, example)
            for arguments in self.failing_arguments:
                with pytest.raises(ExecutionFailed) as raised:
                    await host.call(name, arguments)
                text = json.dumps(raised.value.to_json())
                assert "Traceback" not in text
                assert str(tmp_path) not in text
                await self._check(host, example)

    async def test_a_cancelled_call_ends_in_time(self, tmp_path: Path) -> None:
        """A caller who goes away, at whatever moment, does not wait for the function; the next call works."""
        async with self._host(tmp_path) as host:
            name = self._name(host, self._examples()[0])
            for moment in CALLER_LEAVES:
                call = asyncio.create_task(host.call(name, self._slow()))
                await asyncio.wait({call}, timeout=moment)
                assert not call.done(), "the function ended with slow_arguments before it was cancelled"
                call.cancel()
                await self._ended(call)
                assert call.cancelled()
                await self._check(host, self._examples()[0])

    async def test_a_deadline_ends_a_call(self, tmp_path: Path) -> None:
        """A call over its time is answered with ``CallTimeout`` at once; the next call works."""
        async with self._host(tmp_path) as host:
            name = self._name(host, self._examples()[0])
            call = asyncio.create_task(host.call(name, self._slow(), timeout=0.3))
            await self._ended(call)
            with pytest.raises(CallTimeout):
                await call
            await self._check(host, self._examples()[0])

    # Life

    async def test_opening_and_closing_leaves_nothing_behind(self, tmp_path: Path) -> None:
        """After ``close`` no task, thread or process of the engine is there."""
        example = self._examples()[0]
        before = snapshot()
        async with self._opened(tmp_path) as engine:
            functions = {function.signature.name: function for function in engine.functions()}
            function = functions[example.function] if example.function else next(iter(functions.values()))
            _judge(example, await _run(function, dict(example.arguments)))
        assert not await leftovers(before, within=LEFTOVER_SECONDS)

    # Secrets

    async def test_secrets_stand_in_no_text(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """No ``repr``, error or log line holds the value of a ``SecretStr`` key."""
        texts: list[str] = []
        with caplog.at_level(logging.DEBUG):
            async with self._opened(tmp_path) as engine:
                secrets = secrets_in(getattr(engine, "config", None))
                texts += [repr(engine), repr(engine.context), repr(getattr(engine, "config", None))]
            if not secrets:
                pytest.skip("does not apply: no SecretStr key is set")
            async with self._host(tmp_path) as host:
                name = self._name(host, self._examples()[0])
                for arguments in (*self.failing_arguments, {"nobody_declared_this": 1}):
                    with pytest.raises(EngineHostError) as raised:
                        await host.call(name, arguments)
                    texts.append(json.dumps(raised.value.to_json()))
        texts += [record.getMessage() for record in caplog.records]
        assert not [text for text in texts for secret in secrets if secret in text]

    # Inside

    def _examples(self) -> list[Example]:
        assert self.examples, "the suite needs at least one example"
        return [Example(*example) for example in self.examples]

    def _slow(self) -> Mapping[str, Any]:
        if self.slow_arguments is None:
            pytest.skip("does not apply: no slow_arguments")
        return self.slow_arguments

    def _name(self, host: Host, example: Example) -> str:
        return example.function or host.functions()[0].name

    async def _check(self, host: Host, example: Example) -> None:
        _judge(example, await host.call(self._name(host, example), dict(example.arguments)))

    async def _ended(self, call: asyncio.Task[Any]) -> None:
        done, _ = await asyncio.wait({call}, timeout=self.answers_within)
        assert done, f"the call still runs after {self.answers_within:g} s: it waits for its function"


def _judge(example: Example, result: Any) -> None:
    if callable(example.expected):
        assert example.expected(result), f"{example.arguments} gave {result!r}"
    else:
        assert result == example.expected, f"{example.arguments} gave {result!r}"


async def _run(function: Function, arguments: dict[str, Any]) -> Any:
    """One call without a host, on a thread of its own where the function is a plain ``def``."""
    call = Call(function.signature.name)
    if function.mode is RunMode.ASYNC:
        return await function.run(arguments, call)
    if function.mode is RunMode.ASYNC_STREAM:
        return [item async for item in function.run(arguments, call)]
    stream = function.mode is RunMode.SYNC_STREAM
    return await _on_thread(
        lambda: list(function.run(arguments, call)) if stream else function.run(arguments, call)
    )


def _on_thread(work: Callable[[], Any]) -> Awaitable[Any]:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - handed to the one who waits
            loop.call_soon_threadsafe(done.set_exception, error)
        else:
            loop.call_soon_threadsafe(done.set_result, result)

    threading.Thread(target=run, name="engine-under-test").start()
    return done
