"""One list for a model: policy, kinds, own tools, names and the way back, classifiers, HTTP, the shell."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from enginehost.caller import LOCAL, anonymous
from enginehost.catalog import EngineRecord
from enginehost.cli import main
from enginehost.errors import EngineUnavailable, InvalidRequest
from enginehost.host import Host
from enginehost.settings import HostSettings
from enginehost.specs import SPEC_KINDS

POLICY = """
default: deny
rules:
  - {allow: call, callers: anyone, tags: [free]}
  - {allow: view, callers: anyone, tags: [shown]}
"""
NOBODY = anonymous("http")


@pytest.fixture
async def host(function: Any, engine: Any, tmp_path: Path) -> AsyncGenerator[Host, None]:
    async with hosted(
        tmp_path,
        engine(
            function("weather.today", "The weather of a city today", "free", city="Which city"),
            function("send_mail", "Sends an electronic letter", "free"),
            function("delete_mail", "Deletes an electronic letter", "shown"),
            function("read_mail", "Reads an electronic letter"),
        ),
    ) as made:
        yield made


@asynccontextmanager
async def hosted(folder: Path, engine: Any, **settings: Any) -> AsyncGenerator[Host, None]:
    async with Host(None, None, settings=HostSettings(state_dir=folder, **settings)) as made:
        await made.add_engine(EngineRecord("many", "Test"), engine)
        yield made


async def test_all_that_may_be_called_is_listed_by_name_in_every_kind(host: Host, function: Any) -> None:
    own = function("größe", "How tall somebody is")
    for kind in SPEC_KINDS:
        listed = await host.tools_for_model(kind=kind, own=[own])
        assert len(listed) == 5
        resolved = {listed.resolve(name) for name in listed.names}
        assert resolved == {"größe", "weather.today", "send_mail", "delete_mail", "read_mail"}
    assert [one["function"]["name"] for one in await host.tools_for_model(own=[own])][1:3] == [
        "delete_mail",
        "read_mail",
    ]


async def test_a_query_puts_what_fits_first(host: Host) -> None:
    listed = await host.tools_for_model("do I need an umbrella in this town?", most=1)
    assert [listed.resolve(one["function"]["name"]) for one in listed] == ["weather.today"]
    assert await host.tools_for_model("xyzzy") == []
    assert len(await host.tools_for_model("letter", tags="free")) == 1


async def test_own_tools_and_kept_ones_always_stand_on_it(host: Host, function: Any) -> None:
    own = function("read_mail", "An own tool hides the function of its name")
    listed = await host.tools_for_model(
        "weather", "mcp", most=1, own=[own, own.signature], keep=["send_mail", "nothing"]
    )
    assert [one["name"] for one in listed] == ["read_mail", "send_mail"]
    assert listed[0]["description"].startswith("An own tool")


async def test_own_names_never_take_another_functions_face(host: Host, function: Any) -> None:
    face = host.face_names("openai").to_face("weather.today")
    assert face != "weather.today"
    listed = await host.tools_for_model(own=[function(face, "mine")])
    faces = [one["function"]["name"] for one in listed]
    assert len(set(faces)) == len(faces)
    assert listed.resolve(face) == "weather.today"
    assert listed.resolve(faces[0]) == face


async def test_what_a_caller_may_not_view_and_call_is_never_on_it(
    function: Any, engine: Any, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    functions = (
        function("send_mail", "Sends an electronic letter", "free"),
        function("delete_mail", "Deletes an electronic letter", "shown"),
        function("read_mail", "Reads an electronic letter"),
    )
    async with hosted(tmp_path, engine(*functions), policy=policy) as host:
        for query in ("", "electronic letter", "read_mail delete_mail"):
            listed = await host.tools_for_model(
                query, "mcp", caller=NOBODY, keep=["read_mail", "delete_mail"]
            )
            assert [one["name"] for one in listed] == ["send_mail"]
            assert "read_mail" not in json.dumps(listed)
        assert len(await host.tools_for_model("electronic letter", caller=LOCAL)) == 3


async def test_it_follows_the_catalog(host: Host, function: Any, engine: Any) -> None:
    assert await host.tools_for_model("zeppelin") == []
    many = [function(f"other{number}", "Something else") for number in range(60)]
    await host.add_engine(EngineRecord("more", "Test"), engine(function("fly", "Flies a zeppelin"), *many))
    assert len(await host.tools_for_model("zeppelin")) == 1
    await host.remove_engine("more")
    assert await host.tools_for_model("zeppelin") == []


async def test_many_may_ask_while_the_index_is_made_and_leave(host: Host, function: Any, engine: Any) -> None:
    many = [function(f"other{number}", "Flies a zeppelin") for number in range(300)]
    await host.add_engine(EngineRecord("more", "Test"), engine(*many))
    asked = [asyncio.create_task(host.tools_for_model("zeppelin")) for _ in range(5)]
    await asyncio.sleep(0)
    asked[0].cancel()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert [len(one) for one in found[1:] if isinstance(one, list)] == [300] * 4


async def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[float("weather" in text), float("letter" in text or "post" in text), 0.1] for text in texts]


async def test_vectors_of_a_callable_find_what_shares_no_word(host: Host) -> None:
    listed = await host.tools_for_model("post", "mcp", most=3, classifier=embed)
    assert "mail" in listed[0]["name"]


class Llm:
    """A model that answers what it is given, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, list[str]()

    async def send(self, text: str, **options: Any) -> Any:
        self.asked.append(text)
        if isinstance(self.answer, Exception):
            raise self.answer
        return SimpleNamespace(data=self.answer)


async def test_a_model_that_is_asked_chooses_names(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = Llm({"tools": ["send_mail", "made_up", "weather.today", "send_mail"]})
    monkeypatch.setattr(host, "llm", lambda name: llm)
    listed = await host.tools_for_model("anything", "mcp", most=2, classifier="llm:small")
    assert [one["name"] for one in listed] == ["send_mail", "weather.today"]
    assert "delete_mail: Deletes" in llm.asked[0]


@pytest.mark.parametrize("failure", [EngineUnavailable("no way there"), ValueError("odd"), {"no": "list"}])
async def test_words_decide_where_a_model_fails_and_the_log_says_so_once(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failure: Any
) -> None:
    monkeypatch.setattr(host, "llm", lambda name: Llm(failure))
    with caplog.at_level(logging.WARNING, "enginehost.narrowing"):
        for _ in range(3):
            listed = await host.tools_for_model("weather", "mcp", classifier="llm:small")
            assert [one["name"] for one in listed][:1] == ["weather.today"]
    assert len(caplog.messages) == 1
    assert "llm:small" in caplog.messages[0]


async def test_wrong_vectors_are_a_failure_too(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    async def wrong(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0]]

    listed = await host.tools_for_model("weather", "mcp", classifier=wrong)
    assert [one["name"] for one in listed][:1] == ["weather.today"]
    assert len(caplog.messages) == 1


async def test_an_unknown_classifier_kind_or_number_is_refused(host: Host) -> None:
    with pytest.raises(InvalidRequest, match="bm25, embedding:ENGINE or llm:MODEL"):
        await host.tools_for_model("x", classifier="magic")
    with pytest.raises(InvalidRequest):
        await host.tools_for_model("letter", "no-such-kind")
    with pytest.raises(InvalidRequest, match="at least 0"):
        await host.tools_for_model("x", most=-1)


async def test_http_gives_what_fits(tmp_path: Path, host: Host) -> None:
    import httpx2

    from enginehost.serve.app import make_app

    transport = httpx2.ASGITransport(app=make_app(host))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        listed = (await client.get("/v1/tools?format=mcp&query=umbrella&most=1")).json()
        assert [one["name"] for one in listed] == ["weather.today"]
        assert len((await client.get("/v1/tools?format=mcp&most=2")).json()) == 2
        assert (await client.get("/v1/tools?most=0")).status_code == 400


def test_the_shell_gives_what_fits(capfd: pytest.CaptureFixture[str]) -> None:
    smss = Path(__file__).parents[3] / "smss"
    words = ("tools", "--folder", str(smss), "--as", "mcp", "--for", "do I need an umbrella", "--most", "1")
    with pytest.raises(SystemExit):
        main(words)
    assert '"current_weather"' in capfd.readouterr().out
