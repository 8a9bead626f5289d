# ruff: noqa: S101 - a conformance suite is made of asserts
"""The conformance suite for model engines: subclass it in a test module and fill in the attributes."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from enginehost.engine import FunctionSignature
from enginehost.errors import EngineHostError
from enginehost.llm.message import Message, Role, Status, Type, user
from enginehost.llm.model import IModelEngine, ModelRequest, Rows
from enginehost.testing.engines import load_engine
from enginehost.testing.file_contract import LEFTOVER_SECONDS, FileContract, secrets_in
from enginehost.testing.leftovers import leftovers, snapshot

ENDS_WITHIN = 10.0
"""Seconds after which a reader that leaves counts as held up."""

TOOL = FunctionSignature(
    "weather.today",
    "The weather of a town",
    {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
)
"""What the tests offer. No provider takes the dot, so its name has to be mapped."""

SCHEMA = {
    "type": "object",
    "properties": {"town": {"type": "string"}, "degrees": {"type": "number"}},
    "required": ["town", "degrees"],
}
"""What the tests ask for."""


class ModelContract(FileContract):
    """What every model engine must do. ``smss`` names a model; a fixture that starts one may set it.

    Subclasses set :attr:`engine_class`, :attr:`smss` and :attr:`says`; the rest switches further checks on.
    """

    says: str = "Hello"
    """What a user says to which the model answers with text, in at least three pieces where it streams."""

    calls_a_tool: str | None = None
    """What a user says to which the model, offered :data:`TOOL`, answers with two calls of it, and, once it
    has the results, with text."""

    gives_data: str | None = None
    """What a user says to which the model, asked for :data:`SCHEMA`, gives such a value."""

    thinks: str | None = None
    """What a user says about which the model thinks before it answers."""

    never_ends: str | None = None
    """What a user says to which the answer begins, and then does not end."""

    is_cut: str | None = None
    """What a user says to which the stream ends in the middle of the answer."""

    fails: str | None = None
    """What a user says which the provider refuses for good (``retryable`` false)."""

    # The file

    def test_the_file_opens_without_a_finding(self, tmp_path: Path) -> None:
        """``smss`` loads, the host has nothing to say about it, and it offers no function."""
        self.prepare(tmp_path)
        loaded = load_engine(self.engine_class, self.smss, tmp_path, access=self.access)
        assert not loaded.record.diagnostics
        assert isinstance(loaded.engine, IModelEngine)
        assert loaded.functions == ()
        assert loaded.record.is_model

    # Answers

    async def test_it_lists_ids(self, tmp_path: Path) -> None:
        """``models`` gives texts, or nothing."""
        async with self._opened(tmp_path) as engine:
            found = await engine.models()
            assert all(isinstance(one, str) and one for one in cast("list[Any]", found))

    async def test_text_comes_in_pieces_of_whole_messages(self, tmp_path: Path) -> None:
        """Pieces of a message have its id and are open; the last message has the usage."""
        async with self._opened(tmp_path) as engine:
            messages = await self._ask(engine, [user(self.says)])
            assert_well_formed(messages)
            assert _said(messages)
            assert messages[-1].usage is not None

    async def test_every_request_reads_the_rows_anew(self, tmp_path: Path) -> None:
        """A second try with the same request sends the same body, not the rest of a spent one."""
        async with self._opened(tmp_path) as engine:
            begun: list[int] = []

            async def rows() -> AsyncGenerator[Message, None]:
                begun.append(0)
                yield user(self.says)
                begun[-1] += 1

            for _ in range(2):
                assert _said([one async for one in engine.stream(rows, await self._request(engine))])
            assert begun == [1, 1]

    async def test_a_long_row_may_come_in_pieces(self, tmp_path: Path) -> None:
        """A row in pieces is the row: its last piece may be empty."""
        half = len(self.says) // 2
        parts = [self.says[:half], self.says[half:], ""]
        rows = [Message(Role.USER, content=part, id="1", status=Status.OPEN) for part in parts]
        rows[-1] = replace(rows[-1], status=Status.DONE)
        async with self._opened(tmp_path) as engine:
            assert _said(await self._ask(engine, rows))

    async def test_tools_are_called_and_their_results_understood(self, tmp_path: Path) -> None:
        """Two calls of one turn come whole, with ids of ours and arguments as JSON; then it goes on."""
        if self.calls_a_tool is None:
            pytest.skip("does not apply: no calls_a_tool")
        async with self._opened(tmp_path) as engine:
            names = {TOOL.name: "weather_today"}
            request = replace(await self._request(engine), tools=(TOOL,), names=names)
            rows = [user(self.calls_a_tool)]
            messages = await self._ask(engine, rows, request)
            assert_well_formed(messages)
            calls = [one for one in messages if one.type is Type.TOOL_CALL]
            assert len(calls) == 2
            assert len({one.call_id for one in calls}) == 2
            for call in calls:
                assert call.query is not None
                assert call.query["tool"] == "weather_today"
                assert isinstance(call.query["args"]["town"], str)
            rows += [
                replace(one, query={**(one.query or {}), "tool": TOOL.name})
                for one in _whole(messages)
                if one.type is Type.TOOL_CALL or one.content or one.provider
            ]
            rows += [_result(call) for call in calls]
            assert _said(await self._ask(engine, rows, request))

    async def test_a_structured_answer_is_data(self, tmp_path: Path) -> None:
        """A ``data`` message holds JSON of the schema."""
        if self.gives_data is None:
            pytest.skip("does not apply: no gives_data")
        async with self._opened(tmp_path) as engine:
            request = replace(await self._request(engine), schema=SCHEMA)
            messages = _whole(await self._ask(engine, [user(self.gives_data)], request))
            (data,) = [one for one in messages if one.type is Type.DATA]
            assert set(json.loads(data.content)) == {"town", "degrees"}

    async def test_reasoning_goes_back_with_what_the_provider_needs(self, tmp_path: Path) -> None:
        """Thoughts come before the text; the next turn, with their rows, is accepted."""
        if self.thinks is None:
            pytest.skip("does not apply: no thinks")
        async with self._opened(tmp_path) as engine:
            rows = [user(self.thinks)]
            messages = await self._ask(engine, rows)
            assert_well_formed(messages)
            kinds = [one.type for one in _whole(messages)]
            assert kinds[0] is Type.REASONING
            assert Type.TEXT in kinds
            assert _said(await self._ask(engine, [*rows, *_whole(messages), user(self.says)]))

    async def test_requests_at_once_get_their_own_answers(self, tmp_path: Path) -> None:
        """Many in flight do not mix."""
        async with self._opened(tmp_path) as engine:
            alone = _said(await self._ask(engine, [user(self.says)]))
            many = await asyncio.gather(
                *(self._ask(engine, [user(self.says)]) for _ in range(self.concurrency))
            )
            assert {_said(messages) for messages in many} == {alone}
            ids = [one.id for messages in many for one in messages if one.whole]
            assert len(set(ids)) == len(ids)

    # Ends

    async def test_a_reader_may_leave_at_any_time(self, tmp_path: Path) -> None:
        """Closing the answer ends it at once; the next request works."""
        prompt = self.never_ends or self.says
        async with self._opened(tmp_path) as engine:
            request = await self._request(engine)
            async with asyncio.timeout(ENDS_WITHIN):
                async with aclosing(engine.stream(_rows([user(prompt)]), request)) as answer:
                    await anext(answer)
            assert _said(await self._ask(engine, [user(self.says)]))

    async def test_a_cancelled_request_ends(self, tmp_path: Path) -> None:
        """Whoever waits for an answer that does not end may be cancelled; the next request works."""
        if self.never_ends is None:
            pytest.skip("does not apply: no never_ends")
        async with self._opened(tmp_path) as engine:
            waiting = asyncio.create_task(self._ask(engine, [user(self.never_ends)]))
            await asyncio.wait({waiting}, timeout=0.3)
            assert not waiting.done()
            waiting.cancel()
            done, _ = await asyncio.wait({waiting}, timeout=ENDS_WITHIN)
            assert done
            assert waiting.cancelled()
            assert _said(await self._ask(engine, [user(self.says)]))

    async def test_a_stream_without_its_end_is_an_error(self, tmp_path: Path) -> None:
        """A cut answer is never taken for a short one."""
        if self.is_cut is None:
            pytest.skip("does not apply: no is_cut")
        async with self._opened(tmp_path) as engine:
            with pytest.raises(EngineHostError) as raised:
                await self._ask(engine, [user(self.is_cut)])
            assert raised.value.detail["retryable"] is True

    async def test_a_refusal_says_that_trying_again_is_vain(self, tmp_path: Path) -> None:
        """The error has ``retryable`` false, no traceback and no path."""
        if self.fails is None:
            pytest.skip("does not apply: no fails")
        async with self._opened(tmp_path) as engine:
            with pytest.raises(EngineHostError) as raised:
                await self._ask(engine, [user(self.fails)])
            assert raised.value.detail["retryable"] is False
            text = json.dumps(raised.value.to_json())
            assert "Traceback" not in text
            assert str(tmp_path) not in text

    async def test_the_service_talks_to_it(self, tmp_path: Path) -> None:
        """``host.llm`` finds it, and gives its text."""
        async with self._host(tmp_path) as host:
            (info,) = host.models()
            assert (await host.llm(info.engine_id).send(self.says)).text
            assert host.llm().engine_id == info.engine_id

    # Life

    async def test_opening_and_closing_leaves_nothing_behind(self, tmp_path: Path) -> None:
        """After ``close`` no task, thread or process of the engine is there."""
        before = snapshot()
        async with self._opened(tmp_path) as engine:
            await self._ask(engine, [user(self.says)])
        gc.collect()
        assert not await leftovers(before, within=LEFTOVER_SECONDS)

    async def test_secrets_stand_in_no_text(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """No ``repr``, error or log line holds the value of a ``SecretStr`` key."""
        texts: list[str] = []
        with caplog.at_level(logging.DEBUG):
            async with self._opened(tmp_path) as engine:
                config: Any = getattr(engine, "config", None)
                secrets = secrets_in(config)
                texts += [repr(engine), repr(engine.context), repr(config)]
                await self._ask(engine, [user(self.says)])
        if not secrets:
            pytest.skip("does not apply: no SecretStr key is set")
        texts += [record.getMessage() for record in caplog.records]
        assert not [text for text in texts for secret in secrets if secret in text]

    # Inside

    async def _request(self, engine: IModelEngine) -> ModelRequest:
        wanted = engine.default_model
        listed = [one for one in await engine.models() if wanted in one]
        return ModelRequest(listed[0] if listed and wanted not in listed else wanted)

    async def _ask(
        self, engine: IModelEngine, rows: Sequence[Message], request: ModelRequest | None = None
    ) -> list[Message]:
        request = request or await self._request(engine)
        async with aclosing(engine.stream(_rows(rows), request)) as answer:
            return [message async for message in answer]


def assert_well_formed(messages: Sequence[Message]) -> None:
    """An answer as :mod:`enginehost.llm.message` says: one message open at a time, each of them ended."""
    assert messages, "an answer has at least one message"
    inside = ""
    ended: set[str] = set()
    for message in messages:
        assert message.role is Role.ASSISTANT
        assert message.id, "the engine makes the ids"
        assert message.id not in ended, "a message goes on after its end"
        assert inside in ("", message.id), "a message begins before the one before it has ended"
        inside = "" if message.whole else message.id
        if message.whole:
            assert message.status is Status.DONE
            ended.add(message.id)
        else:
            assert message.type not in (Type.TOOL_CALL, Type.TOOL_RESULT), "a tool call comes whole"
    assert not inside, "the answer ends in the middle of a message"


def _rows(messages: Sequence[Message]) -> Rows:
    async def rows() -> AsyncGenerator[Message, None]:
        for message in messages:
            yield message

    return rows


def _whole(messages: Sequence[Message]) -> list[Message]:
    """The messages with their pieces put together."""
    texts: dict[str, str] = {}
    for message in messages:
        texts[message.id] = texts.get(message.id, "") + message.content
    return [replace(one, content=texts[one.id]) for one in messages if one.whole]


def _said(messages: Sequence[Message]) -> str:
    return "".join(message.content for message in messages if message.type is Type.TEXT)


def _result(call: Message) -> Message:
    query = {"tool": TOOL.name, "id": call.call_id}
    return Message(Role.TOOL, Type.TOOL_RESULT, '{"degrees": 21}', query)
