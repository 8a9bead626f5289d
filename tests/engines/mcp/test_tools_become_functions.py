"""What a server offers is what the host has: names, schemas, results, changes; over every transport."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from enginehost.errors import ExecutionFailed, InvalidArguments
from enginehost.testing import EngineContract
from enginehost_engines.mcp import McpEngine

from .conftest import host_on, names, raw, real, reason, speak_older, states, until


class TestMcp(EngineContract):
    engine_class = McpEngine
    smss = raw("double", 'MCP_EXCLUDE = ["oth*"]')
    examples = (({"n": 1}, "2.0"), ({"n": 2.5}, "5.0"), ({"n": 0}, "0.0"))
    failing_arguments = ({"n": -1},)
    slow_arguments = {"n": 1_000_000}  # noqa: RUF012


class TestMcpOverHttp(EngineContract):
    engine_class = McpEngine
    examples = TestMcp.examples
    failing_arguments = TestMcp.failing_arguments
    slow_arguments = TestMcp.slow_arguments

    @pytest.fixture(autouse=True)
    def at_the_server(self, lasting_server: Callable[..., Any]) -> None:
        file = lasting_server("http", "token-of-the-server").file
        type(self).smss = file("AUTH_TOKEN = token-of-the-server", 'MCP_INCLUDE = ["double"]')


WAYS = ["stdio", "older-stdio", "http", "older-http", "json", "sse"]


@pytest.fixture(params=WAYS)
def file(
    request: pytest.FixtureRequest, lasting_server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """A file of a real server, for each transport and revision of the protocol."""
    older, _, way = request.param.rpartition("-")
    if older:
        speak_older(monkeypatch)
    return real if way == "stdio" else lasting_server(way).file


async def test_a_tool_is_called_with_checked_arguments_and_gives_its_value(
    file: Callable[..., str], tmp_path: Path
) -> None:
    async with host_on(tmp_path, a=file()) as host:
        assert await host.call("double", {"n": 2}) == "4.0"
        assert await host.call("move", {"point": {"x": 1}, "by": 2}) == {"x": 3, "y": 2}
        assert await host.call("nothing") is None
        with pytest.raises(InvalidArguments):
            await host.call("move", {"point": {"x": "one"}})
        with pytest.raises(InvalidArguments):
            await host.call("double", {"n": 1, "m": 2})


async def test_the_signature_is_what_the_server_says(
    lasting_server: Callable[..., Any], tmp_path: Path
) -> None:
    async with host_on(
        tmp_path, a=lasting_server("http").file("FUNCTION_TAGS = [geo, remote]", "TIMEOUT_SECONDS = 7")
    ) as host:
        entry = host.entry("move")
        signature, hints = entry.signature, entry.signature.annotations
        assert signature.description == "Move a point"
        assert signature.required == ("point",)
        assert signature.properties["by"]["type"] == "integer"
        assert signature.result is not None
        assert signature.result["required"] == ["x"]
        assert (hints.title, hints.read_only, hints.destructive) == ("Add up", True, False)
        assert (hints.idempotent, hints.open_world) == (True, False)
        assert signature.tags == ("geo", "remote")
        assert entry.function.limits.timeout == 7


async def test_a_prefix_and_patterns_choose_the_functions(
    lasting_server: Callable[..., Any], tmp_path: Path
) -> None:
    keys = ("MCP_PREFIX = my_", 'MCP_INCLUDE = ["d*", "move"]', 'MCP_EXCLUDE = ["die"]')
    async with host_on(tmp_path, a=lasting_server("http").file(*keys)) as host:
        assert names(host) == ["my_double", "my_move"]
        assert await host.call("my_double", {"n": 2}) == "4.0"


async def test_two_servers_with_one_name_are_a_conflict_and_nothing_more(
    lasting_server: Callable[..., Any], tmp_path: Path
) -> None:
    include = 'MCP_INCLUDE = ["double"]'
    async with host_on(
        tmp_path, a=lasting_server("http").file(include), b=lasting_server("http").file(include)
    ) as host:
        assert names(host) == ["double"]
        assert states(host) == {"a": "ready", "b": "conflict"}


async def test_bound_parameters_are_filled_in_and_stand_in_no_spec(
    lasting_server: Callable[..., Any], tmp_path: Path
) -> None:
    async with host_on(tmp_path, a=lasting_server("http").file('FUNCTION_BIND = {"by": 5}')) as host:
        assert list(host.entry("move").signature.properties) == ["point"]
        assert await host.call("move", {"point": {"x": 1}}) == {"x": 6, "y": 5}
        assert await host.call("double", {"n": 1}) == "2.0"


async def test_what_is_no_text_comes_as_bytes_with_its_media_type(
    lasting_server: Callable[..., Any], tmp_path: Path
) -> None:
    async with host_on(tmp_path, a=lasting_server("http").file()) as host:
        text, image, audio, link, plain, blob = await host.call("picture")
        assert text == "see"
        assert image == {"type": "image", "media_type": "image/png", "data": b"\x89PNG"}
        assert (audio["type"], audio["data"]) == ("audio", b"\x89PNG")
        assert link == {"type": "resource_link", "uri": "file:///a", "name": "a", "media_type": "text/plain"}
        assert plain == {"type": "resource", "uri": "x:t", "media_type": "text/plain", "text": "t"}
        assert blob == {"type": "resource", "uri": "x:b", "data": b"\x89PNG"}


async def test_a_tool_that_fails_says_so_in_its_own_words(file: Callable[..., str], tmp_path: Path) -> None:
    async with host_on(tmp_path, a=file()) as host:
        with pytest.raises(ExecutionFailed, match=r"double: .*too small") as raised:
            await host.call("double", {"n": -1})
        assert raised.value.detail["type"] == "ToolError"


async def test_rich_values_travel_by_their_json_form(tmp_path: Path) -> None:
    async with host_on(tmp_path, a=raw("note", place=tmp_path / "noted")) as host:
        await host.call("go", {"when": datetime.date(2026, 11, 30), "data": b"\xff", "big": 2**70})
        noted = (tmp_path / "noted").read_text()
        assert '"when":"2026-11-30"' in noted
        assert '"$bytes":"/w=="' in noted
        assert str(2**70) in noted


async def test_new_tools_become_functions_and_old_ones_go(file: Callable[..., str], tmp_path: Path) -> None:
    async with host_on(tmp_path, a=file()) as host:
        await host.call("learn", {"name": "tea"})
        await until(lambda: "tea" in names(host))
        assert await host.call("tea") in ("tea", {"result": "tea"})
        await host.call("forget", {"name": "tea"})
        await until(lambda: "tea" not in names(host))
        assert "double" in names(host)


async def test_every_page_of_the_list_is_read(tmp_path: Path) -> None:
    async with host_on(tmp_path, a=raw("pages")) as host:
        assert len(names(host)) == 15


async def test_a_list_that_never_ends_is_read_once_round(tmp_path: Path) -> None:
    async with host_on(tmp_path, a=raw("endless")) as host:
        assert names(host) == [f"t{number}" for number in range(8)]


async def test_many_calls_are_in_flight_over_one_session(file: Callable[..., str], tmp_path: Path) -> None:
    async with host_on(tmp_path, a=file()) as host:
        slow = [asyncio.create_task(host.call("double", {"n": 1_000_000})) for _ in range(10)]
        answers = await asyncio.gather(*(host.call("double", {"n": n}) for n in range(50)))
        assert answers == [str(2.0 * n) for n in range(50)]
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def test_progress_goes_to_the_log(
    lasting_server: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with host_on(tmp_path, a=lasting_server("http").file()) as host:
        with caplog.at_level(logging.INFO, "enginehost.engine.a"):
            assert await host.call("steps") == {"result": "done"}
            await until(lambda: "steps: progress 2 of 3: step 2" in caplog.messages)


async def test_a_server_that_knows_only_the_handshake_is_spoken_to_in_it(tmp_path: Path) -> None:
    async with host_on(tmp_path, a=raw("only-handshake")) as host:
        assert await host.call("go") == "go"


async def test_the_program_gets_its_own_variables_and_folder_and_none_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_SECRET", "of-the-host")
    (tmp_path / "smss" / "inner").mkdir(parents=True)
    more = ('MCP_ENV = {"MINE": "yes"}', "MCP_FOLDER = inner")
    async with host_on(tmp_path, a=real(*more)) as host:
        variables = await host.call("environment")
        assert variables["MINE"] == "yes"
        assert "HOST_SECRET" not in variables
        harmless = {"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
        assert not [one for one in variables if one not in {"MINE", *harmless} and not one.startswith("LC_")]
        assert await host.call("folder") == {"result": str(tmp_path / "smss" / "inner")}


async def test_headers_and_credentials_are_sent(http_server: Callable[..., Any], tmp_path: Path) -> None:
    server = http_server("http", "letmein-1234567")
    text = server.file("AUTH_TOKEN = letmein-1234567", 'HEADERS = {"X-Client": "enginehost"}')
    async with host_on(tmp_path, a=text) as host:
        sent = await host.call("headers")
        assert sent["x-client"] == "enginehost"
        assert sent["authorization"] == "Bearer letmein-1234567"


async def test_a_wrong_credential_is_a_failed_engine_that_says_so(
    http_server: Callable[..., Any], tmp_path: Path
) -> None:
    server = http_server("http", "letmein-1234567")
    async with host_on(tmp_path, a=server.file("AUTH_TOKEN = wrong-7654321")) as host:
        assert states(host) == {"a": "failed"}
        assert "401" in reason(host)
        assert "wrong-7654321" not in reason(host)


async def test_private_addresses_are_refused_where_the_host_refuses_them(
    http_server: Callable[..., Any], tmp_path: Path
) -> None:
    text = http_server("http").file()
    async with host_on(tmp_path, settings={"private_networks": False}, a=text) as host:
        assert states(host) == {"a": "failed"}
        assert "private network" in reason(host)
