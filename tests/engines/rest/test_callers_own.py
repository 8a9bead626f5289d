"""The proof that a caller showed the host goes to a service where the file asks for it, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from enginehost import Host, HostSettings
from enginehost.serve.app import make_app

TOKEN = "a-token-of-alice-that-is-long-enough"
SHOWN = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", "host": "127.0.0.1"}


def write(folder: Path, name: str, url: str, *lines: str) -> None:
    text = (
        f"ENGINE_CLASS = REST\nAPI_ENDPOINT_URL = {url}\nFUNCTION_NAME = {name}\nFUNCTION_DESCRIPTION = d\n"
    )
    (folder / f"{name}.smss").write_text("\n".join([text, "FUNCTION_PARAMETERS = []", *lines, ""]))


async def called(folder: Path, name: str, headers: dict[str, str], **settings: Any) -> httpx2.Response:
    async with Host(folder, None, settings=HostSettings(**settings), watch=False) as host:
        transport = httpx2.ASGITransport(app=make_app(host, "127.0.0.1"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post(f"/v1/functions/{name}", content=b"{}", headers=headers)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_it_travels_as_it_came_where_the_file_asks_for_it(
    tmp_path: Path, server: Any, kit: Any, accept: str
) -> None:
    server.answer = kit.plain(b'"hello"')
    write(tmp_path, "asks", server.url, "AUTH = caller")
    tokens = [{"name": "alice", "token": TOKEN}]
    answer = await called(tmp_path, "asks", SHOWN | {"accept": accept}, tokens=tokens)
    assert (answer.status_code, "hello" in answer.text) == (200, True)
    assert server.last.header("authorization") == f"Bearer {TOKEN}".encode()


async def test_it_stays_with_the_host_where_the_file_does_not(tmp_path: Path, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"null")
    write(tmp_path, "quiet", server.url)
    tokens = [{"name": "alice", "token": TOKEN}]
    assert (await called(tmp_path, "quiet", SHOWN | {"cookie": "a=b"}, tokens=tokens)).status_code == 200
    assert server.last.header("authorization") is None
    assert server.last.header("cookie") is None


async def test_who_shows_none_is_told_and_nothing_is_sent(tmp_path: Path, server: Any) -> None:
    write(tmp_path, "asks", server.url, "AUTH = caller")
    shown = {name: text for name, text in SHOWN.items() if name != "authorization"}
    answer = await called(tmp_path, "asks", shown)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert server.seen == []


async def test_a_service_that_repeats_it_does_not_show_it_and_is_asked_once(
    tmp_path: Path, server: Any, kit: Any
) -> None:
    server.answer = kit.plain(f"no entry for {TOKEN}".encode(), status=401)
    write(tmp_path, "asks", server.url, "AUTH = caller", "CACHE_SECONDS = 60")
    tokens = [{"name": "alice", "token": TOKEN}]
    answer = await called(tmp_path, "asks", SHOWN, tokens=tokens)
    assert answer.status_code == 502
    assert "no entry for ***" in answer.text
    assert TOKEN not in answer.text
    assert len(server.seen) == 1


async def test_no_answer_to_one_caller_is_kept_for_another(tmp_path: Path, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b'"hello"')
    write(tmp_path, "asks", server.url, "AUTH = caller", "CACHE_SECONDS = 60")
    settings = HostSettings(tokens=[{"name": "alice", "token": TOKEN}])
    async with Host(tmp_path, None, settings=settings, watch=False) as host:
        assert "no-effect" in str(host.problems())
        transport = httpx2.ASGITransport(app=make_app(host, "127.0.0.1"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for _ in range(2):
                await client.post("/v1/functions/asks", content=b"{}", headers=SHOWN)
    assert len(server.seen) == 2
