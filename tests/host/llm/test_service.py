"""``host.llm``: forms of sending, limits, counting, and errors that are nobody's fault but the rows'."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from enginehost.call import CURRENT, Call
from enginehost.errors import (
    CallTimeout,
    EngineUnavailable,
    ExecutionFailed,
    InvalidRequest,
    Overloaded,
)
from enginehost.llm.message import Message, Role, Type, Usage, new_id, system, user
from enginehost.llm.model import AbstractModelEngine, ModelRequest, Rows


def reply(*messages: Message) -> Any:
    async def play(rows: Rows, request: ModelRequest, engine: Any) -> AsyncGenerator[Message, None]:
        async for _ in rows():
            pass
        for message in messages:
            yield message

    return play


def text(content: str, **fields: Any) -> Message:
    return Message(Role.ASSISTANT, content=content, id=new_id(), usage=Usage(10, 5), **fields)


async def some(*texts: Any) -> AsyncGenerator[Any, None]:
    for one in texts:
        yield one


class Again:
    """An iterable that begins anew."""

    def __aiter__(self) -> Any:
        return some("a", "b")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a", "a"),
        (user("a"), "a"),
        ([user("a"), "b"], "ab"),
        ({"role": "user", "content": "a"}, "a"),
        ([user("a"), system("first")], "firsta"),
        ((one for one in ("a", "b")), "ab"),
        (Again(), "ab"),
        (lambda: some_messages(), "ab"),
        (lambda: some({"role": "user", "content": "a"}, "b"), "ab"),
        (lambda: ["a", {"content": "b"}], "ab"),
        (
            [user("a"), Message(Role.USER, Type.APPROVAL, "x"), Message(Role.SYSTEM, Type.COMPACTION, "c")],
            "ca",
        ),
    ],
    ids=[
        "text",
        "message",
        "list",
        "mapping",
        "system first",
        "iterator",
        "iterable",
        "function",
        "of mappings",
        "of a list",
        "cleaned",
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_everything_that_holds_messages_can_be_sent(
    given: Any, said: str, stream: bool, stage: Any
) -> None:
    if hasattr(given, "__next__"):
        given = ["a", "b"]
    async with stage.host() as host:
        llm = host.llm()
        if stream:
            pieces = [one async for one in llm.send(given, stream=True)]
            assert "".join(one.content for one in pieces) == said
            assert pieces[-1].usage is not None
        else:
            answer = await llm.send(given)
            assert (answer.text, len(answer), answer.usage.input) == (said, 1, 10)


async def some_messages() -> AsyncGenerator[Message, None]:
    yield user("a")
    yield user("b")


@pytest.mark.parametrize("given", [7, [], [7], {"role": "nobody"}, some("a", "b"), lambda: 7])
async def test_what_holds_none_is_refused(given: Any, stage: Any) -> None:
    async with stage.host() as host:
        if isinstance(given, AsyncIterable):

            async def late() -> AsyncGenerator[Message, None]:
                yield user("a")
                yield system("too late")

            given = late()
        with pytest.raises(InvalidRequest):
            await host.llm().send(given)


async def test_a_stream_that_can_be_read_once_is_sent_again_whole(stage: Any) -> None:
    seen: list[list[str]] = []

    async def play(rows: Rows, request: ModelRequest, engine: Any) -> AsyncGenerator[Message, None]:
        seen.append([])
        async for row in rows():
            seen[-1].append(row.content)
            if len(seen) == 1 and len(seen[-1]) == 2:
                raise ExecutionFailed("cut", detail={"retryable": True})
        if len(seen) < 3:
            raise ExecutionFailed("cut", detail={"retryable": True})
        yield text("fine")

    stage.play(play)
    async with stage.host(RETRIES=2) as host:
        assert (await host.llm().send(some("a", "b", "c"))).text == "fine"
    assert seen == [["a", "b"], ["a", "b", "c"], ["a", "b", "c"]]


async def test_what_the_rows_raise_is_theirs(stage: Any) -> None:
    class Mine(Exception):
        pass

    async def broken() -> AsyncGenerator[Message, None]:
        yield user("a")
        raise Mine

    async with stage.host(BREAKER_FAILURES=1) as host:
        with pytest.raises(Mine):
            await host.llm().send(broken())
        assert (await host.llm().send("a")).text == "a"


async def test_an_engine_that_breaks_is_an_error_of_the_tree(stage: Any) -> None:
    async def play(rows: Rows, request: ModelRequest, engine: Any) -> AsyncGenerator[Message, None]:
        yield text("a")
        raise KeyError("of the engine")

    stage.play(play)
    async with stage.host() as host:
        with pytest.raises(ExecutionFailed, match="puppet failed: KeyError"):
            await host.llm().send("a")
        stage.play(reply())
        with pytest.raises(ExecutionFailed, match="holds nothing"):
            await host.llm().send("a")
        stage.play(reply(replace(text("a"), status="open")))
        with pytest.raises(ExecutionFailed, match="middle of a message"):
            await host.llm().send("a")


async def test_limits_of_the_file_hold(stage: Any) -> None:
    go, inside = asyncio.Event(), asyncio.Event()

    async def play(rows: Rows, request: ModelRequest, engine: Any) -> AsyncGenerator[Message, None]:
        inside.set()
        await go.wait()
        yield text("fine")

    stage.play(play)
    async with stage.host(MAX_CONCURRENCY=1, QUEUE_LIMIT=0) as host:
        first = asyncio.create_task(host.llm().send("a"))
        await inside.wait()
        with pytest.raises(Overloaded):
            await host.llm().send("a")
        go.set()
        assert (await first).text == "fine"
        assert (await host.llm().send("a")).text == "fine"
    async with stage.host(RATE_LIMIT="1/hour") as host:
        assert (await host.llm().send("a")).text == "fine"
        with pytest.raises(Overloaded):
            await host.llm().send("a")


async def test_the_deadline_of_a_call_bounds_what_it_asks(stage: Any) -> None:
    async def play(rows: Rows, request: ModelRequest, engine: Any) -> AsyncGenerator[Message, None]:
        yield replace(text("a"), status="open", usage=None)
        await asyncio.sleep(60)

    stage.play(play)
    async with stage.host() as host:
        call = Call("f", deadline=asyncio.get_running_loop().time() + 0.05)
        token = CURRENT.set(call)
        try:
            with pytest.raises(CallTimeout):
                await host.llm().send("a")
        finally:
            CURRENT.reset(token)
        async with aclosing(host.llm().send("a", stream=True, total_timeout=0.05)) as pieces:
            await anext(pieces)
            await asyncio.sleep(0.1)  # the reader is slow, and is not cancelled for it
            with pytest.raises(CallTimeout):
                await anext(pieces)
        waiting = asyncio.create_task(host.llm().send("a", total_timeout=30))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_models_are_found_by_id_name_and_part_of_their_model(stage: Any) -> None:
    stage.write("two", ENGINE="id-2", ENGINE_ALIAS="Second", MODEL="great-7")
    async with stage.host(ENGINE="id-1") as host:
        assert [(one.engine_id, one.kind, one.state, one.model) for one in host.models()] == [
            ("id-2", "Puppet", "ready", "great-7"),
            ("id-1", "Puppet", "ready", "puppet-1"),
        ]
        for name in ("id-2", "second", "SECOND", "great"):
            assert host.llm(name).engine_id == "id-2"
        with pytest.raises(InvalidRequest, match="several model engines; name one"):
            host.llm()
        with pytest.raises(InvalidRequest, match="there are Second, puppet"):
            host.llm("third")
        assert not host.functions()


async def test_an_engine_that_knows_no_ids_needs_no_model(stage: Any) -> None:
    stage.engine.models = AbstractModelEngine.models
    async with stage.host(MODEL="") as host:
        assert (await host.llm("puppet").send("hello")).text == "hello"


async def test_a_file_that_fails_says_why(stage: Any) -> None:
    class Closed(stage.engine):
        async def open(self) -> None:
            raise EngineUnavailable("the provider is on holiday")

    stage.engine = Closed
    stage.write("puppet")
    from enginehost.testing import engine_registry, running_host

    registry = engine_registry(Closed, "ENGINE_CLASS = Puppet")
    async with running_host(stage.folder, registry=registry) as host:
        with pytest.raises(EngineUnavailable, match="on holiday"):
            host.llm("puppet")


async def test_a_saved_file_takes_over_and_what_runs_ends_on_the_old_one(stage: Any) -> None:
    from enginehost import Host, HostSettings
    from enginehost.testing import engine_registry

    go = asyncio.Event()

    async def play(rows: Rows, request: ModelRequest, engine: Any) -> AsyncGenerator[Message, None]:
        if engine.config.model == "old":
            await go.wait()
        yield text(engine.config.model)

    stage.play(play)
    stage.write("puppet", MODEL="old")
    registry = engine_registry(stage.engine, "ENGINE_CLASS = Puppet")
    settings = HostSettings(state_dir=stage.folder.parent / "state")
    async with Host(stage.folder, None, settings=settings, registry=registry) as host, asyncio.timeout(20):
        llm = host.llm()
        running = asyncio.create_task(llm.send("a"))
        await asyncio.sleep(0)
        stage.write("puppet", MODEL="new")
        while host.models()[0].model != "new":
            await asyncio.sleep(0.02)
        assert (await llm.send("a")).text == "new"
        assert stage.engine.closed == []
        go.set()
        assert (await running).text == "old"
        while not stage.engine.closed:
            await asyncio.sleep(0.02)


async def test_requests_are_counted_and_traced_without_content(stage: Any) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with stage.host(PRICE_INPUT=100, PRICE_OUTPUT=200) as host:
        tracing = host._invoker.tracing
        tracing._tracer, tracing.on = provider.get_tracer("test"), True
        assert (await host.llm().send("secret words", max_tokens=7)).usage.cost == pytest.approx(0.002)
        stage.play(reply(Message(Role.ASSISTANT, content="x", id="1", status="open")))  # type: ignore[arg-type]
        with pytest.raises(ExecutionFailed):
            await host.llm().send("secret words")
        metrics = (await asyncio.to_thread(host.metrics)).decode()
    fine, failed = exporter.get_finished_spans()
    assert fine.name == "chat puppet-1"
    assert fine.attributes is not None
    found = dict(fine.attributes)
    assert found["gen_ai.usage.input_tokens"] == 10
    assert found["gen_ai.request.max_tokens"] == 7
    assert "secret" not in str(found) + str(failed.attributes) + str(failed.status.description)
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "execution_failed"
    row = '{engine="puppet",model="puppet-1"'
    assert f'enginehost_model_requests_total{row},outcome="ok"}} 1' in metrics
    assert f'enginehost_model_tokens_total{row},kind="output"}} 5' in metrics
    assert f"enginehost_model_cost_dollars_total{row}}} 0.002" in metrics


async def test_a_broken_plugin_of_models_is_told(tmp_path: Any) -> None:
    from enginehost.plugins import MODELS, Alias, PluginRegistry

    class NoModel:
        config_model = None
        requires_signature = False
        open = close = functions = watched = None

    registry = PluginRegistry(())
    registry.add_engine_class(Alias("X", "", MODELS, "somebody", ""), NoModel)
    (problem,) = registry.problems
    assert "lacks stream, models, default_model" in problem.message
    assert "AbstractModelEngine" in problem.hint
