"""Tokens of OAuth 2.0 from a real token endpoint, which is the recording server's ``/token``."""

import asyncio
import base64
import json
import time
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost.errors import CallTimeout, ConfigError, EngineUnavailable, ExecutionFailed
from enginehost_engines.rest import StreamRestEngine, oauth
from enginehost_engines.rest.grants import Grant
from enginehost_engines.rest.request import Message
from enginehost_engines.rest.transport import PoolSettings
from enginehost_engines.rest.url import parse

CLIENT = {"AUTH_CLIENT_ID": "the client", "AUTH_CLIENT_SECRET": "hush:%ü client"}
KINDS: dict[str, dict[str, str]] = {
    "oauth2_client_credentials": {},
    "oauth2_refresh_token": {"AUTH_REFRESH_TOKEN": "hush-refresh"},
    "oauth2_password": {"AUTH_USERNAME": "ann", "AUTH_PASSWORD": "hush-password"},
}


class Service:
    """The token endpoint and the API. ``tokens`` are given one after the other; ``valid`` are taken."""

    def __init__(self, server: Any, kit: Any) -> None:
        self.server, self.kit = server, kit
        self.valid: set[str] | None = None
        self.given = 0
        self.extra: dict[str, Any] = {"token_type": "Bearer", "expires_in": 3600}
        self.answer_token: Any = self.give
        server.answer = self.answer

    async def answer(self, seen: Any, writer: Any) -> None:
        if seen.target.startswith(b"/token"):
            await self.answer_token(seen, writer)
            return
        token = (seen.header("authorization") or b"").decode().removeprefix("Bearer ")
        taken = self.valid is None or token in self.valid
        status, body = (200, f'"{token}"') if taken else (401, f'{{"error": "not {token}"}}')
        await self.kit.plain(body.encode(), status=status)(seen, writer)

    async def give(self, seen: Any, writer: Any) -> None:
        self.given += 1
        answer = {"access_token": f"hush-token-{self.given}"} | self.extra
        await self.kit.plain(json.dumps(answer).encode())(seen, writer)

    def keys(self, kind: str = "oauth2_client_credentials", **more: Any) -> dict[str, Any]:
        url = f"{self.server.url}/token?tenant=x"
        return {"AUTH": kind, "AUTH_TOKEN_URL": url, **CLIENT, **KINDS[kind], **more}

    def asked(self) -> list[Any]:
        return [seen for seen in self.server.seen if seen.target.startswith(b"/token")]

    def called(self) -> list[Any]:
        return [seen for seen in self.server.seen if not seen.target.startswith(b"/token")]


@pytest.fixture
def service(server: Any, kit: Any) -> Service:
    return Service(server, kit)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``later(seconds)``: as if so much time had passed for tokens."""
    clock = SimpleNamespace(passed=0.0, time=time.time)
    clock.monotonic = lambda: time.monotonic() + clock.passed
    monkeypatch.setattr(oauth, "time", clock)

    def move(seconds: float) -> None:
        clock.passed += seconds

    return move


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["basic", "post"])
async def test_a_token_is_asked_for_as_the_rfc_says(
    make: Any, service: Service, kit: Any, kind: str, method: str
) -> None:
    keys = service.keys(kind, AUTH_CLIENT_METHOD=method, AUTH_SCOPE="read write", AUTH_AUDIENCE="api")
    assert await make(**keys).execute({}, kit.call()) == "hush-token-1"
    (asked,) = service.asked()
    assert (asked.method, asked.target) == ("POST", b"/token?tenant=x")
    assert asked.header("content-type") == b"application/x-www-form-urlencoded"
    own = {
        "oauth2_client_credentials": {},
        "oauth2_refresh_token": {"refresh_token": "hush-refresh"},
        "oauth2_password": {"username": "ann", "password": "hush-password"},
    }[kind]
    fields = {"grant_type": kind.removeprefix("oauth2_"), "scope": "read write", "audience": "api", **own}
    if method == "post":
        fields |= {"client_id": CLIENT["AUTH_CLIENT_ID"], "client_secret": CLIENT["AUTH_CLIENT_SECRET"]}
        assert asked.header("authorization") is None
    else:
        proof = base64.b64decode((asked.header("authorization") or b"").removeprefix(b"Basic "))
        assert proof == b"the+client:hush%3A%25%C3%BC+client"
    assert {name: value for name, (value,) in parse_qs(asked.body.decode()).items()} == fields


async def test_a_public_client_only_says_its_name(make: Any, service: Service, kit: Any) -> None:
    keys = service.keys("oauth2_refresh_token")
    del keys["AUTH_CLIENT_SECRET"]
    await make(**keys).execute({}, kit.call())
    (asked,) = service.asked()
    assert asked.header("authorization") is None
    assert parse_qs(asked.body.decode())["client_id"] == ["the client"]


async def test_one_token_serves_all_engines_with_the_same_credentials(
    make: Any, service: Service, kit: Any
) -> None:
    one, two, other = (
        make(**service.keys()),
        make(StreamRestEngine, **service.keys()),
        make(**service.keys(AUTH_SCOPE="more")),
    )
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one.execute, {}, kit.call())
    assert [item async for item in two.execute({}, kit.call())] == ['"hush-token-1"']
    assert (len(service.asked()), len(service.called())) == (1, 21)
    assert await other.execute({}, kit.call()) == "hush-token-2"


async def test_a_token_is_renewed_before_it_ends(make: Any, service: Service, kit: Any, later: Any) -> None:
    engine = make(**service.keys())
    for passed, token in ((0, 1), (3500, 1), (41, 2), (3000, 2)):
        later(passed)
        assert await engine.execute({}, kit.call()) == f"hush-token-{token}"


async def test_the_old_token_serves_while_it_holds_where_no_new_one_comes(
    make: Any, service: Service, kit: Any, later: Any
) -> None:
    engine = make(**service.keys())
    await engine.execute({}, kit.call())
    service.answer_token = kit.plain(b"", status=503)
    later(3550)
    for _ in range(3):
        assert await engine.execute({}, kit.call()) == "hush-token-1"
    assert len(service.asked()) == 2  # no other try for some seconds
    later(60)
    with pytest.raises(EngineUnavailable, match=r"no token from 127.0.0.1:\d+: it answered 503$"):
        await engine.execute({}, kit.call())


async def test_a_token_that_is_refused_is_replaced_once(make: Any, service: Service, kit: Any) -> None:
    engine = make(HTTP_METHOD="POST", **service.keys())
    assert await engine.execute({}, kit.call()) == "hush-token-1"
    service.valid = {"hush-token-2"}
    assert await engine.execute({}, kit.call()) == "hush-token-2"
    assert (len(service.asked()), len(service.called())) == (2, 3)
    service.valid = set()
    with pytest.raises(ExecutionFailed, match=r'answered 401: {"error": "not \*\*\*"}$') as failed:
        await engine.execute({}, kit.call())
    assert failed.value.detail == {"status": 401, "retry_may_help": False}
    assert (len(service.asked()), len(service.called())) == (3, 5)


async def test_callers_whose_token_is_refused_at_once_fetch_one_other(
    make: Any, service: Service, kit: Any
) -> None:
    engine = make(**service.keys())
    await engine.execute({}, kit.call())
    service.valid = {"hush-token-2"}
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(engine.execute, {}, kit.call())
    assert len(service.asked()) == 2


async def test_a_refresh_token_that_rotates_is_followed(
    make: Any, service: Service, kit: Any, later: Any
) -> None:
    service.extra["refresh_token"] = "hush-rotated"
    engine = make(**service.keys("oauth2_refresh_token"))
    await engine.execute({}, kit.call())
    later(3600)
    await engine.execute({}, kit.call())
    service.answer_token = kit.plain(b'{"error": "invalid_grant"}', status=400)
    later(3600)
    with pytest.raises(EngineUnavailable, match=r"it answered 400 \(invalid_grant\)$"):
        await engine.execute({}, kit.call())
    service.answer_token = service.give
    await engine.execute({}, kit.call())
    sent = [parse_qs(asked.body.decode())["refresh_token"] for asked in service.asked()]
    assert sent == [["hush-refresh"], ["hush-rotated"], ["hush-rotated"], ["hush-refresh"]]


FIELDS = ("token_type", "expires_in", "refresh_token", "scope")

GARBAGE = {
    "no JSON": b"<html>hush-token</html>",
    "no object": b'["hush-token"]',
    "no token": b'{"token_type": "Bearer"}',
    "no text": b'{"access_token": {"hush": 1}}',
    "a line break": b'{"access_token": "hush\\r\\nX: y"}',
    "another kind": b'{"access_token": "hush-token", "token_type": "mac"}',
    "an error": b'{"error": "invalid_scope", "error_description": "hush:%\xc3\xbc client is wrong"}',
    "an odd error": b'{"error": "hush client {}"}',
    "too much": b'"' + b"x" * 2**21 + b'"',
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_of_the_token_endpoint_is_told_without_secrets(
    make: Any, service: Service, kit: Any, body: bytes
) -> None:
    service.answer_token = kit.plain(body)
    with pytest.raises(EngineUnavailable, match=r"^f: no token from 127\.0\.0\.1:\d+: ") as failed:
        await make(**service.keys()).execute({}, kit.call())
    assert failed.value.detail["reason"]
    assert "hush" not in json.dumps(failed.value.to_json())
    assert not service.called()


@pytest.mark.parametrize("life", [None, "3600", 3600.5, -5, 10**400, "soon", {}])
async def test_a_token_is_used_whatever_its_life_is_said_to_be(
    make: Any, service: Service, kit: Any, life: Any
) -> None:
    service.extra["expires_in"] = life
    engine = make(**service.keys())
    for _ in range(2):
        assert str(await engine.execute({}, kit.call())).startswith("hush-token")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner),
)


@given(st.fixed_dictionaries({"access_token": JSON | st.just("t")}, optional=dict.fromkeys(FIELDS, JSON)))
def test_any_answer_gives_a_token_that_can_travel_or_none(answer: dict[str, Any]) -> None:
    grant = Grant("client_credentials", "http://h/t", "c", PoolSettings(False, True))
    try:
        token = oauth.TokenSource(grant)._read(answer)
    except oauth._NoToken:
        return
    message = token(Message("GET", parse("http://h/").origin, b"/", ((b"authorization", b"x"),), b""))
    ((name, value),) = message.headers
    assert (name, value) == (b"Authorization", b"Bearer " + str(answer["access_token"]).encode("ascii"))
    assert token.due <= token.ends


async def test_a_token_endpoint_that_is_away_is_told(
    make: Any, service: Service, kit: Any, free_tcp_port: int
) -> None:
    keys = service.keys(AUTH_TOKEN_URL=f"http://127.0.0.1:{free_tcp_port}/token")
    with pytest.raises(EngineUnavailable, match=r"no token from .*: connection refused") as failed:
        await make(**keys).execute({}, kit.call())
    assert failed.value.detail["retry_may_help"] is True
    assert "hush" not in json.dumps(failed.value.to_json())
    assert not service.called()


async def test_all_who_wait_for_a_silent_token_endpoint_wait_no_longer_than_one(
    make: Any, service: Service, kit: Any
) -> None:
    async def silent(seen: Any, writer: Any) -> None:
        await asyncio.sleep(3600)

    service.answer_token = silent
    engine = make(**service.keys(AUTH_TIMEOUT_SECONDS=0.3))
    outcomes = await asyncio.gather(
        *(engine.execute({}, kit.call()) for _ in range(20)), return_exceptions=True
    )
    told = {str(outcome) for outcome in outcomes}
    assert told == {f"f: no token from 127.0.0.1:{service.server.port}: it did not answer within 0.3 s"}
    assert len({id(outcome) for outcome in outcomes}) == 20
    assert len(service.asked()) == 1
    with pytest.raises(CallTimeout):
        await make(**service.keys()).execute({}, kit.call(0.1))


async def test_who_goes_away_while_a_token_comes_takes_it_from_nobody(
    make: Any, service: Service, kit: Any
) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    first = True

    async def silent_once(seen: Any, writer: Any) -> None:
        nonlocal first
        if first:
            first = False
            loop.call_soon_threadsafe(asked.set)
            await asyncio.sleep(3600)
        await service.give(seen, writer)

    service.answer_token = silent_once
    engine = make(**service.keys())
    gone = asyncio.create_task(engine.execute({}, kit.call()))
    await asked.wait()
    waiting = asyncio.create_task(engine.execute({}, kit.call()))
    await asyncio.sleep(0)
    gone.cancel()
    assert await waiting == "hush-token-1"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lost", ["AUTH_TOKEN_URL", "AUTH_CLIENT_ID", "own"])
def test_a_credential_that_is_missing_is_named(server: Any, kit: Any, kind: str, lost: str) -> None:
    keys = {"URL": server.url, "AUTH": kind, "AUTH_TOKEN_URL": "http://h/t", **CLIENT, **KINDS[kind]}
    if lost == "own":
        lost = next(iter([*reversed(KINDS[kind]), "AUTH_CLIENT_SECRET"]))
    del keys[lost]
    with pytest.raises(ConfigError, match=f"{lost} is missing, which AUTH = {kind} needs"):
        kit.config(**keys)


@pytest.mark.parametrize(
    "more",
    [
        {"HEADERS": {"Authorization": "x"}},
        {"PARAMETER_PLACEMENT": {"q": "header:authorization"}},
        {"AUTH_TOKEN_URL": "ftp://h/t"},
        {"AUTH_TOKEN_URL": "http://h/{t}"},
    ],
)
def test_what_cannot_be_beside_a_token_is_refused(server: Any, kit: Any, more: dict[str, Any]) -> None:
    keys = {"URL": server.url, "AUTH_TOKEN_URL": "http://h/t", **CLIENT, **more}
    with pytest.raises(ConfigError) as refused:
        kit.config(**keys)
    assert refused.value.key == next(iter(more))


async def test_a_file_that_is_saved_again_keeps_the_token(make: Any, service: Service, kit: Any) -> None:
    service.extra["refresh_token"] = "hush-rotated"
    old = make(**service.keys("oauth2_refresh_token"))
    await old.open()
    await old.execute({}, kit.call())
    new = make(HEADERS={"X-New": "y"}, **service.keys("oauth2_refresh_token"))
    await new.open()
    await old.close()
    del old
    assert await new.execute({}, kit.call()) == "hush-token-1"


async def test_a_file_opens_without_asking_for_a_token(make: Any, service: Service, kit: Any) -> None:
    await make(**service.keys()).open()
    assert not service.server.seen
