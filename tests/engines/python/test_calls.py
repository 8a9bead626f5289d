"""LocalPython: what a call gives."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import threading
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from enginehost.engine import CURRENT, Call, HostAccess, RunMode
from enginehost.errors import ConfigError, EngineUnavailable, InvalidArguments, ResultInvalid
from enginehost.tracebacks import RemoteTraceback
from enginehost.values import LARGE
from enginehost_engines.python_source import read_source
from enginehost_engines.worker import client, crossing, replies
from enginehost_engines.worker.failures import FunctionRaised

from .conftest import Engines, children, eventually, function_of


@pytest.mark.parametrize("name", ["add", "add_async"])
async def test_a_function_answers(engines: Engines, name: str) -> None:
    assert await engines.call(name, a=1, b=2) == 3


async def test_no_process_exists_before_the_first_call(engines: Engines) -> None:
    before = children()
    engine = engines.make("add")
    await engine.open()
    assert children() == before
    await engines.call(engine, a=1, b=2)
    assert len(children() - before) == 1


@pytest.mark.parametrize("name", ["echo", "echo_async"])
@pytest.mark.parametrize(
    "value",
    [
        None,
        2**80,
        1.5,
        float("inf"),
        "zwölf €",
        b"\x00\xff",
        (1, [2, {3}]),
        {1: {"$set": []}},
        Decimal("1.20"),
        datetime(2026, 1, 2, tzinfo=UTC),
    ],
    ids=repr,
)
async def test_values_come_back_as_they_were(engines: Engines, name: str, value: Any) -> None:
    answer = await engines.call(name, value=value)
    assert answer == value
    assert type(answer) is type(value)


@pytest.mark.parametrize("name", ["echo", "echo_async"])
async def test_megabytes_cross_whole(engines: Engines, name: str) -> None:
    engine = engines.make(name)
    for value in ("x" * 1_000_000, os.urandom(3_000_000), list(range(200_000))):
        assert await engines.call(engine, value=value) == value


async def test_many_async_calls_run_at_once_in_one_process(engines: Engines) -> None:
    engine = engines.make(
        "meet",
        script="""
        import asyncio
        here = 0
        async def meet(many):
            global here
            here += 1
            while here < many:
                await asyncio.sleep(0.001)
            return here
    """,
    )
    assert await asyncio.gather(*(engines.call(engine, many=50) for _ in range(50))) == [50] * 50


async def test_concurrent_calls_get_their_own_answers(engines: Engines) -> None:
    for name in ("echo", "echo_async"):
        engine = engines.make(name)
        answers = await asyncio.gather(*(engines.call(engine, value=number) for number in range(200)))
        assert answers == list(range(200))


async def test_globals_last_from_call_to_call_and_engine_to_engine(engines: Engines) -> None:
    first, second = engines.make("count"), engines.make("count")
    assert [await engines.call(first), await engines.call(second), await engines.call(first)] == [1, 2, 3]


async def test_as_many_sync_calls_run_in_parallel_as_there_are_workers(engines: Engines) -> None:
    engine = engines.make(
        "meet",
        python_workers=2,
        script="""
        import os, time
        def meet(folder):
            open(os.path.join(folder, f"here.{os.getpid()}"), "w").close()
            while sum(name.startswith("here.") for name in os.listdir(folder)) < 2:
                time.sleep(0.005)
            return os.getpid()
    """,
    )
    folder = str(engines.folder)
    assert len(set(await asyncio.gather(*(engines.call(engine, folder=folder) for _ in range(2))))) == 2


async def test_a_parameter_may_have_any_name(engines: Engines) -> None:
    arguments = {"class": 1, "self": 2, "a b": 3}
    engine = engines.make("keyword")
    assert await function_of(engine).run(arguments, Call("keyword")) == arguments


@pytest.mark.parametrize("kind", ["ValueError", "SystemExit", "KeyboardInterrupt"])
async def test_what_a_function_raises_keeps_its_name_its_text_and_its_traceback(
    engines: Engines, kind: str
) -> None:
    engine = engines.make("fail")
    with pytest.raises(FunctionRaised, match="broken") as caught:
        await engines.call(engine, kind=kind, text="broken")
    assert type(caught.value).__name__ == kind
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in fail" in str(caught.value.__cause__)


async def test_an_exception_costs_no_process(engines: Engines) -> None:
    engine = engines.make(
        "process_or_fail",
        script="""
        import os, sys
        def process_or_fail(fail):
            return sys.exit(3) if fail else os.getpid()
    """,
    )
    first = await engines.call(engine, fail=False)
    with pytest.raises(FunctionRaised):
        await engines.call(engine, fail=True)
    assert await engines.call(engine, fail=False) == first


async def test_an_error_of_the_tree_arrives_whole(engines: Engines) -> None:
    engine = engines.make(
        "refuse",
        script="""
        from enginehost.errors import InvalidArguments
        def refuse():
            raise InvalidArguments("no", errors=[{"pointer": "/x", "message": "bad"}])
    """,
    )
    with pytest.raises(InvalidArguments) as caught:
        await engines.call(engine)
    assert caught.value.detail["errors"] == [{"pointer": "/x", "message": "bad"}]


async def test_a_result_that_cannot_cross_is_refused_with_its_type(engines: Engines) -> None:
    with pytest.raises(ResultInvalid, match="object"):
        await engines.call("unsendable")


async def test_an_argument_that_cannot_cross_is_refused_with_its_place(engines: Engines) -> None:
    with pytest.raises(InvalidArguments) as caught:
        await engines.call("echo", value=[1, object()])
    assert caught.value.detail["errors"][0]["pointer"] == "/value/1"


async def test_what_a_call_prints_reaches_the_engines_log(
    engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engines.make("say")
    with caplog.at_level(logging.INFO):
        await engines.call(engine, lines=2)
        await eventually(lambda: "past python" in caplog.text)
    records = [record for record in caplog.records if record.name == engine.context.log.name]
    by_text = {record.getMessage().rstrip("."): record.levelno for record in records}
    assert by_text == {
        "0": logging.INFO,
        "1": logging.INFO,
        "to stderr": logging.WARNING,
        "mine: a record": logging.ERROR,
        "past python": logging.WARNING,
    }


async def test_a_huge_print_is_cut_and_does_not_stop_the_call(
    engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert await engines.call("say", lines=20, width=1_000_000) == 20
    assert "further characters of output dropped" in caplog.text
    assert len(caplog.text) < 2_000_000


@pytest.mark.parametrize("colour", ["def", "async def"])
@pytest.mark.parametrize(
    "what",
    [
        "sys.stdout = sys.stderr = None",
        "sys.stdout.close(); sys.stderr.close()",
        "sys.stdout.detach()",
        "sys.stdout = Odd()",
    ],
)
async def test_a_function_may_do_to_its_streams_what_it_likes(
    engines: Engines, what: str, colour: str
) -> None:
    script = f"""
        import os, sys
        class Odd:
            closed = property(lambda self: sys.exit(3))
            def flush(self):
                sys.exit(4)
        {colour} f(first):
            if first:
                {what}
            return os.getpid()
    """
    engine = engines.make("f", script=script)
    assert await engines.call(engine, first=True) == await engines.call(engine, first=False)


async def test_what_is_printed_on_a_stream_around_stdout_reaches_the_log(
    engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    script = """
        import io, sys
        def f():
            sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
            print("in a wrapper")
    """
    with caplog.at_level(logging.INFO):
        await engines.call(engines.make("f", script=script))
    assert "in a wrapper" in caplog.text


async def test_init_commands_run_after_the_script(engines: Engines) -> None:
    script = """
        rate = 1
        def set_rate(value):
            global rate
            rate = value
        def total(amount):
            return amount * rate
    """
    for init in ("wanted = 3; set_rate(wanted)", "if True: set_rate(3);", "set_rate(3);  x = ';'"):
        engine = engines.make("total", script=script, init_function_engine=init)
        assert await engines.call(engine, amount=2) == 6


async def test_a_script_imports_what_lies_beside_it(engines: Engines) -> None:
    (engines.folder / "neighbour.py").write_text("value = 7")
    engine = engines.make(
        "ask",
        script="""
        import os
        from neighbour import value
        def ask():
            return value, os.getcwd()
    """,
    )
    assert await engines.call(engine) == (7, str(engines.folder))


async def test_the_hosts_own_settings_do_not_reach_a_worker(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEHOST_TOKENS", "secret")
    monkeypatch.setenv("OTHER", "visible")
    engine = engines.make(
        "ask",
        script="""
        import os
        def ask():
            return [os.environ.get(name) for name in ("ENGINEHOST_TOKENS", "OTHER")]
    """,
    )
    assert await engines.call(engine) == [None, "visible"]


async def test_a_changed_script_is_another_process(engines: Engines) -> None:
    old = engines.make("answer", script="def answer(): return 1")
    assert await engines.call(old) == 1
    (script,) = old.watched()
    script.write_text("def answer(): return 22")
    new = type(old)(old.context, old.config)
    engines.made.append(new)
    assert await engines.call(new) == 22
    assert await engines.call(old) == 1


async def test_a_script_that_fails_to_load_says_why_and_may_be_tried_again(engines: Engines) -> None:
    engine = engines.make(
        "f",
        script="""
        import os
        if not os.path.exists("now"):
            raise ZeroDivisionError("not yet")
        def f(): return 1
    """,
    )
    with pytest.raises(EngineUnavailable, match="ZeroDivisionError: not yet"):
        await engines.call(engine)
    (engines.folder / "now").touch()
    with pytest.raises(EngineUnavailable, match="not yet"):  # at once: a crash loop starts no process a call
        await engines.call(engine)

    async def answers() -> bool:
        try:
            return await engines.call(engine) == 1
        except EngineUnavailable:
            return False

    async with asyncio.timeout(20):
        while not await answers():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("script", "message", "hint"),
    [
        ("def f(:", r"script_0.py:1:7: ", ""),
        ("def f1(): pass", "has no function f", "f1"),
        ("f = None\x00", "null bytes", ""),
    ],
)
async def test_a_wrong_script_is_an_error_of_the_file(
    engines: Engines, script: str, message: str, hint: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        engines.make("f", script=script)
    assert hint in caught.value.hint
    assert caught.value.key
    assert str(engines.folder) not in caught.value.message


async def test_a_missing_script_is_an_error_of_the_key(engines: Engines) -> None:
    with pytest.raises(ConfigError, match="no file gone") as caught:
        engines.make("f", python_script_path="gone.py")
    assert caught.value.key == "PYTHON_SCRIPT_PATH"
    with pytest.raises(ConfigError, match="PYTHON_SCRIPT_PATH is missing"):
        engines.make("f", python_script_path="")
    with pytest.raises(ValidationError, match="INIT_FUNCTION_ENGINE is not Python"):
        engines.make("add", init_function_engine="def (")


async def test_the_function_may_have_another_name_in_the_script(engines: Engines) -> None:
    assert await engines.call(engines.make("sum", python_function_name="add"), a=1, b=2) == 3


@pytest.mark.parametrize("inner", ["", "app_root/version/assets", "py"])
async def test_a_semoss_script_is_found_where_semoss_keeps_it(engines: Engines, inner: str) -> None:
    place = engines.folder / "Totals__42" / inner
    place.mkdir(parents=True)
    (place / "totals.py").write_text("def add(a, b): return [a, b]")
    model = engines.make("add")
    context = dataclasses.replace(model.context, engine_id="42", alias="Totals")
    config = model.config.model_copy(update={"python_script_path": "", "python_file_name": "totals.py"})
    engine = type(model)(context, config)
    engines.made.append(engine)
    assert await engines.call(engine, a=1, b=2) == [1, 2]


@pytest.mark.parametrize(
    ("body", "mode"),
    [
        ("def f(): return 1", RunMode.SYNC),
        ("async def f(): return 1", RunMode.ASYNC),
        ("def f():\n    def g(): yield\n    return 1", RunMode.SYNC),
        ("def f():\n    x = yield 1", RunMode.SYNC_STREAM),
        ("async def f():\n    for x in []: yield x", RunMode.ASYNC_STREAM),
        ("if True:\n    async def f(): pass", RunMode.ASYNC),
        ("from x import f", RunMode.SYNC),
        ("from x import *", RunMode.SYNC),
        ("f = lambda: 1", RunMode.SYNC),
    ],
)
async def test_how_a_function_runs_is_read_from_its_source(tmp_path: Path, body: str, mode: RunMode) -> None:
    script = tmp_path / "s.py"
    script.write_text(body)
    source = read_source(script)
    assert source.may_have("f")
    assert source.functions.get("f", RunMode.SYNC) is mode


async def test_a_function_that_answers_otherwise_than_it_looks_still_answers(engines: Engines) -> None:
    engine = engines.make(
        "f",
        script="""
        async def hidden(x):
            return x
        f = lambda x: hidden(x)
    """,
    )
    assert await engines.call(engine, x=1) == 1


async def test_inside_the_host_only_where_the_host_allows_it(engines: Engines) -> None:
    with pytest.raises(ConfigError, match="not allowed") as caught:
        engines.make("process_id", python_isolation="none")
    assert caught.value.key == "PYTHON_ISOLATION"
    access = HostAccess(in_process_python=True)
    for name, mode in (("process_id", RunMode.SYNC), ("process_id_async", RunMode.ASYNC)):
        engine = engines.make(name, python_isolation="none", access=access)
        await engine.open()
        function = function_of(engine)
        assert function.mode is mode
        answer = function.run({}, Call(name))
        assert (await answer if mode is RunMode.ASYNC else answer) == os.getpid()


@pytest.mark.parametrize("name", ["echo", "echo_async"])
async def test_what_is_large_is_packed_and_unpacked_beside_the_loop(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    threads: dict[str, set[int]] = {"pack": set(), "unpack": set()}

    def watch(module: Any, step: str) -> None:
        real = getattr(module, step)

        def watched(*given: Any, **options: Any) -> Any:
            threads[step].add(threading.get_ident())
            return real(*given, **options)

        monkeypatch.setattr(module, step, watched)

    watch(crossing, "pack")
    watch(client, "unpack")
    watch(replies, "unpack")
    here = threading.get_ident()
    function = function_of(engines.make(name))
    call = Call("test")
    token = CURRENT.set(call)
    try:
        assert await function.run({"value": "x"}, call) == "x"
        assert threads == {"pack": {here}, "unpack": {here}}
        assert not call.large
        value = "x" * LARGE
        assert await function.run({"value": value}, call) == value
        assert call.large
        threads["pack"].clear()
        assert await function.run({"value": value}, call) == value
    finally:
        CURRENT.reset(token)
    assert threads["pack"]
    assert here not in threads["pack"]
    assert len(threads["unpack"]) >= 2


async def test_an_argument_that_cannot_be_sent_is_told_with_its_place_among_the_arguments(
    engines: Engines,
) -> None:
    with pytest.raises(InvalidArguments) as refused:
        await engines.call("echo", value={"a": [1, object()]})
    assert refused.value.message == (
        "test at /value/a/1: this cannot be sent to the worker: a value of type object has no JSON form"
    )
    assert refused.value.detail["errors"] == [
        {"pointer": "/value/a/1", "message": "a value of type object has no JSON form"}
    ]
