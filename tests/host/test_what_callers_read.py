"""A text that goes to a caller never holds a secret, a traceback or a local path."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from enginehost import Call, EngineContext, Function, Host, HostSettings
from enginehost.caller import Caller
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, EngineState
from enginehost.errors import (
    ConfigError,
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    InvalidArguments,
    InvalidRequest,
    OutcomeUnknown,
    ResultInvalid,
)
from enginehost.signature import FunctionSignature

SECRET = "s3cr3t-of-the-vault"
TRACEBACK = 'Traceback (most recent call last):\n  File "/home/alice/s/x.py", line 333, in f'
DIRTY = f"boom in /home/alice/private/conf.ini with {SECRET}\n{TRACEBACK}"
FORBIDDEN = (SECRET, "s3cr3t", "/home", "alice", "private", "Traceback", "line 333")

PEER = Caller("peer", face="http")


class Raiser(AbstractFunctionEngine):
    """One function, in the host's own process, that raises what it is given."""

    def __init__(self, error: BaseException, signature: FunctionSignature | None = None) -> None:
        super().__init__(EngineContext("raiser"))
        self._error = error
        self._signature = signature or FunctionSignature("f")

    def functions(self) -> list[Function]:
        async def run(arguments: dict[str, Any], call: Call) -> Any:
            raise self._error

        return [Function(self._signature, run)]


def clean(text: str) -> bool:
    return not any(word in text for word in FORBIDDEN)


async def failure(
    error: BaseException, stream: io.StringIO | None = None, **settings: Any
) -> EngineHostError:
    """What a caller gets where a function raises ``error``."""
    host = Host(None, None, settings=HostSettings(**settings), log=stream)
    host.redactor.add(SECRET)
    async with host:
        await host.add_engine(EngineRecord("raiser", "Test"), Raiser(error))
        with pytest.raises(EngineHostError) as caught:
            await host.call_json(host.new_call("f", PEER), {})
        with pytest.raises(EngineHostError) as streamed:
            _ = [item async for item in host.stream_json(host.new_call("f", PEER), {})]
    assert streamed.value.message == caught.value.message
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(DIRTY),
        ExecutionFailed(DIRTY, detail={"type": SECRET, "at": [Path("/home/alice/x"), {SECRET: DIRTY}]}),
        EngineUnavailable(DIRTY, state="failed", reason=DIRTY),
        OutcomeUnknown(DIRTY),
        InvalidRequest(DIRTY),
        InvalidArguments(DIRTY, errors=[{"pointer": f"/{SECRET}", "message": DIRTY, "allowed": [DIRTY]}]),
        ConfigError(DIRTY, path="/home/alice/x.smss", line=3, hint=DIRTY),
        type(f"Boom_{SECRET}", (Exception,), {})(DIRTY),
        type("/home/alice/Boom", (Exception,), {})(),
        ExceptionGroup(DIRTY, [ValueError(DIRTY)]),
        KeyError(DIRTY),
        FileNotFoundError(2, "No such file or directory", "/home/alice/private/conf.ini"),
    ],
)
async def test_no_error_of_a_function_shows_one(error: BaseException) -> None:
    told = await failure(error)
    assert clean(json.dumps(told.to_json())), told.to_json()
    assert clean(told.message)


async def test_a_detail_that_is_no_json_is_left_out() -> None:
    told = await failure(ExecutionFailed("boom", detail={"x": object(), "nan": float("nan")}))
    assert told.to_json() == {"code": "execution_failed", "message": "boom"}


async def test_what_the_caller_sent_is_told_as_it_was_sent() -> None:
    schema = {
        "type": "object",
        "properties": {"home": {"type": "object", "properties": {"tmp": {"type": "integer"}}}},
    }
    async with Host(None, None, settings=HostSettings()) as host:
        engine = Raiser(RuntimeError(), FunctionSignature("f", parameters=schema))
        await host.add_engine(EngineRecord("raiser", "Test"), engine)
        with pytest.raises(InvalidArguments) as caught:
            await host.call("f", {"home": {"tmp": "/usr/lib/x.py"}})
    assert caught.value.detail["errors"][0]["pointer"] == "/home/tmp"
    assert "/usr/lib/x.py" in caught.value.message


async def test_a_result_that_breaks_the_signature_is_not_quoted() -> None:
    class Answers(AbstractFunctionEngine):
        def functions(self) -> list[Function]:
            async def run(arguments: dict[str, Any], call: Call) -> Any:
                return {"a": DIRTY, "private": 1}

            result = {
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "additionalProperties": False,
            }
            return [Function(FunctionSignature("f", result=result), run)]

    async with Host(None, None, settings=HostSettings()) as host:
        await host.add_engine(EngineRecord("answers", "Test"), Answers(EngineContext("answers")))
        with pytest.raises(ResultInvalid, match=r"forbids: the rule /.* is ") as caught:
            await host.call("f")
    assert clean(json.dumps(caught.value.to_json()))


async def test_the_log_and_the_audit_keep_paths_and_no_secret(tmp_path: Path) -> None:
    log, audit = io.StringIO(), tmp_path / "audit.jsonl"
    await failure(RuntimeError(DIRTY), log, log={"format": "json"}, audit={"path": audit})
    first = json.loads(log.getvalue().splitlines()[0])
    assert clean(first["error"])
    assert "/home/alice/private/conf.ini" in first["cause"]
    assert "Traceback" in first["cause"]
    assert SECRET not in log.getvalue() + audit.read_text()


PYTHON = """
ENGINE_CLASS = LocalPython
PYTHON_SCRIPT_PATH = {script}.py
FUNCTION_NAME = {name}
FUNCTION_DESCRIPTION = Fails.
FUNCTION_BIND = {{"password": "${{secret:vault}}"}}
FUNCTION_PARAMETERS = [{{"name": "password", "type": "string"}}]
"""


async def test_no_worker_and_no_state_of_an_engine_shows_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEHOST_SECRET_VAULT", SECRET)
    folder = tmp_path / "my (proj), x"
    folder.mkdir()
    for name, text in {
        "calls": "def calls(password):\n    raise OSError(f'{__file__} {password}')\n",
        "loads": f"raise RuntimeError(f'{{__file__}} /home/alice/private/conf.ini {SECRET}')\n"
        "def loads(password): ...\n",
        "deep": "x = " + "-" * 100_000 + "1\ndef deep(password): ...\n",
        "missing": "",
    }.items():
        (folder / f"{name}.py").write_text(text)
        (folder / f"{name}.smss").write_text(PYTHON.format(script=name, name=name))
    (folder / "nowhere.smss").write_text(PYTHON.format(script=folder / "no such" / "x", name="nowhere"))
    async with Host(folder, None, settings=HostSettings(), watch=False) as host:
        told: dict[str, str] = {}
        for name in ("calls", "loads", "deep", "missing", "nowhere"):
            with pytest.raises(EngineHostError) as caught:
                await host.call(name)
            told[name] = json.dumps(caught.value.to_json())
        reasons = [record.reason for record in host.catalog.records.values()]
        states = {record.display_name: record.state for record in host.catalog.records.values()}
    for text in (*told.values(), *reasons):
        assert clean(text), text
        assert str(tmp_path) not in text
        assert "(proj)" not in text
    assert "calls.py" in told["calls"]
    assert "conf.ini" in told["loads"]
    assert states["deep"] is EngineState.FAILED
    assert "deep.py" in told["deep"]
