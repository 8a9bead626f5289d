"""What a caller can rely on when a function is called: arguments in, result or error out."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from enginehost import Call, Caller, Limits
from enginehost.errors import (
    ExecutionFailed,
    InvalidArguments,
    ResultInvalid,
    TooLarge,
    UnknownFunction,
)

from .conftest import NUMBERS, add, function, serving


async def test_an_async_function_gives_its_result() -> None:
    async with serving(function(add, "add", NUMBERS)) as host:
        assert await host.call("add", {"a": 1, "b": 2}) == 3


async def test_a_declared_default_fills_a_missing_argument() -> None:
    async with serving(function(add, "add", NUMBERS)) as host:
        assert await host.call("add", {"a": 1}) == 2


@pytest.mark.parametrize(
    ("arguments", "pointer", "message"),
    [
        ({"a": "x"}, "/a", "number"),
        ({}, "", '"a" is a required property'),
        ({"a": 1, "bb": 2}, "", 'did you mean "b"?'),
        ({"a": float("nan")}, "/a", ""),
        ({"a": True}, "/a", "number"),
        ({"a": None}, "/a", "number"),
    ],
)
async def test_arguments_that_do_not_fit_never_reach_the_function(
    arguments: dict[str, Any], pointer: str, message: str
) -> None:
    reached: list[Any] = []

    async def run(arguments: dict[str, Any], call: Call) -> None:
        reached.append(arguments)

    async with serving(function(run, "add", NUMBERS)) as host:
        with pytest.raises(InvalidArguments) as caught:
            await host.call("add", arguments)
    assert reached == []
    first = caught.value.detail["errors"][0]
    assert first["pointer"] == pointer
    assert message in first["message"]


async def test_arguments_that_are_no_object_are_refused() -> None:
    async with serving(function(add, "add", NUMBERS)) as host:
        with pytest.raises(InvalidArguments, match="must be an object"):
            await host.call("add", [1, 2])  # type: ignore[arg-type]


async def test_integers_beyond_two_to_the_53_stay_exact() -> None:
    async def same(arguments: dict[str, Any], call: Call) -> Any:
        return arguments["n"]

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    async with serving(function(same, "same", schema)) as host:
        for number in (2**53 + 1, 2**64 + 1, -(10**30)):
            assert await host.call("same", {"n": number}) == number
            assert (
                await host.call_json(host.new_call("same", Caller("x")), {"n": number})
                == str(number).encode()
            )


async def test_a_rich_value_counts_by_its_json_form() -> None:
    async def year(arguments: dict[str, Any], call: Call) -> int:
        return arguments["when"].year

    schema = {"type": "object", "properties": {"when": {"type": "string", "format": "date-time"}}}
    async with serving(function(year, "year", schema)) as host:
        assert await host.call("year", {"when": datetime.fromisoformat("2026-11-30T00:00:00+00:00")}) == 2026


async def test_an_unknown_function_names_the_nearest() -> None:
    async with serving(function(add, "add", NUMBERS)) as host:
        with pytest.raises(UnknownFunction) as caught:
            await host.call("addd", {})
    assert caught.value.detail["nearest"] == ["add"]


async def test_a_text_for_callers_holds_no_secret_path_or_traceback() -> None:
    async def fails(arguments: dict[str, Any], call: Call) -> None:
        raise RuntimeError("postgres://bob:hunter22@db/x failed in /usr/lib/app/x.py: password=letmein")

    async with serving(function(fails)) as host:
        with pytest.raises(ExecutionFailed) as caught:
            await host.call("f")
    text = json.dumps(caught.value.to_json())
    assert "x.py" in text
    for forbidden in ("hunter22", "letmein", "/usr/lib", "Traceback"):
        assert forbidden not in text


async def test_a_result_that_breaks_the_signature_is_refused() -> None:
    async def wrong(arguments: dict[str, Any], call: Call) -> str:
        return "text"

    async with serving(function(wrong, result={"type": "number"})) as host:
        with pytest.raises(ResultInvalid):
            await host.call("f")


async def test_a_result_over_the_functions_size_limit_is_refused_on_every_way_in() -> None:
    async def big(arguments: dict[str, Any], call: Call) -> str:
        return "x" * 2000

    async with serving(function(big, limits=Limits(max_result_bytes=1000))) as host:
        for attempt in (
            host.call("f"),
            host.call_json(host.new_call("f", Caller("x")), {}),
            anext(host.stream("f")),
        ):
            with pytest.raises(TooLarge, match="1000 bytes"):
                await attempt


async def test_a_bound_parameter_is_filled_by_the_host() -> None:
    async def who(arguments: dict[str, Any], call: Call) -> Any:
        return arguments

    bind = {"user": "$caller.subject", "fixed": 7, "money": "$$5"}
    async with serving(function(who, bind=bind)) as host:
        found = await host.call("f", {"x": 1}, caller=Caller("alice"))
    assert found == {"x": 1, "user": "alice", "fixed": 7, "money": "$5"}


async def test_text_is_coerced_only_where_nothing_is_lost() -> None:
    async def same(arguments: dict[str, Any], call: Call) -> Any:
        return arguments

    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}, "s": {"type": "string"}},
    }
    async with serving(function(same, parameters=schema)) as host:
        given = {"n": "7", "b": "true", "s": "8"}
        assert json.loads(await host.call_json(host.new_call("f", Caller("x")), given, coerce=True)) == {
            "n": 7,
            "b": True,
            "s": "8",
        }
        with pytest.raises(InvalidArguments):
            await host.call_json(host.new_call("f", Caller("x")), {"n": "7.5"}, coerce=True)
        with pytest.raises(InvalidArguments):
            await host.call_json(host.new_call("f", Caller("x")), {"n": "7"})


async def test_a_result_without_json_form_is_told_with_function_place_and_setting() -> None:
    async def nan(arguments: dict[str, Any], call: Call) -> Any:
        return {"a": [float("nan")]}

    async def thing(arguments: dict[str, Any], call: Call) -> Any:
        return {"a": object()}

    async with serving(function(nan, "nan"), function(thing, "thing", result={"type": "object"})) as host:
        with pytest.raises(ResultInvalid) as refused:
            await host.call_json(host.new_call("nan"), {})
        assert refused.value.message == "nan: nan is no JSON number (at /a/0)"
        assert refused.value.detail["pointer"] == "/a/0"
        assert "allow_nan" in refused.value.detail["hint"]
        with pytest.raises(
            ResultInvalid, match=r"^thing: a value of type object has no JSON form \(at /a\)$"
        ):
            await host.call_json(host.new_call("thing"), {})
