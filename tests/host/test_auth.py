import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost.auth import Authenticator, bearer_token, check_binding
from enginehost.caller import anonymous
from enginehost.errors import ConfigError, Unauthorized
from enginehost.settings import HostSettings

TOKEN = "a-token-of-some-length"
OTHER = "another-token-of-some-length"


def settings(*tokens: dict[str, Any]) -> HostSettings:
    return HostSettings.model_validate({"tokens": list(tokens)})


def authenticator(**token: Any) -> Authenticator:
    return Authenticator(
        settings({"name": "alice", "token": TOKEN, "scopes": "read", "tenant": "acme", **token})
    )


async def test_no_header_is_an_anonymous_caller():
    found = authenticator()
    assert found.authenticate_now(None, "http") == anonymous("http")
    assert await found.authenticate(None, "mcp") == anonymous("mcp")


async def test_a_token_gives_its_caller_on_each_face():
    found = authenticator()
    for face in ("http", "mcp"):
        caller = await found.authenticate(f"Bearer {TOKEN}", face)
        assert (caller.subject, caller.tenant, caller.scopes) == ("alice", "acme", {"read"})
        assert (caller.face, caller.authenticated) == (face, True)
        assert found.authenticate_now(f"bearer  {TOKEN} ", face) is caller


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN} x",
     "Bearer a.b.c", f"Bearer {TOKEN}, Bearer {TOKEN}", "Bearer \ud800", "Bearer é" * 20, f"Bearer\t{TOKEN}"],
)  # fmt: skip
async def test_a_wrong_proof_is_an_error_never_anonymous(header: str):
    with pytest.raises(Unauthorized) as caught:
        authenticator().authenticate_now(header, "http")
    assert TOKEN not in f"{caught.value} {caught.value.detail}"
    with pytest.raises(Unauthorized):
        await authenticator().authenticate(header, "http")
    with pytest.raises(Unauthorized):
        Authenticator(HostSettings()).authenticate_now(header, "http")


@given(st.text(max_size=40))
def test_no_header_text_breaks_the_reading(header: str):
    with suppress(Unauthorized):
        bearer_token(header)


def test_tokens_come_from_files_variables_and_digests(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    digest = hashlib.sha256(OTHER.encode()).hexdigest().upper()
    found = Authenticator(
        settings(
            {"name": "file", "token_file": str(file)},
            {"name": "digest", "token_sha256": digest},
            {"name": "variable", "token_env": "MY_TOKEN"},
        ),
        environ={"MY_TOKEN": "the-third-token-of-some-length"},
    )
    for token, name in ((TOKEN, "file"), (OTHER, "digest"), ("the-third-token-of-some-length", "variable")):
        caller = found.authenticate_now(f"Bearer {token}", "http")
        assert caller is not None
        assert caller.subject == name


@pytest.mark.parametrize("content", [None, b"", b"short", b"\xff" * 30, b"two words that are long enough"])
def test_a_token_that_cannot_be_had_is_an_error_that_names_its_owner(tmp_path: Path, content: bytes | None):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="'carol'") as caught:
        Authenticator(settings({"name": "carol", "token_file": str(file)}))
    assert not content or content.decode("latin-1") not in str(caught.value)
    with pytest.raises(ConfigError, match=r"'carol'.*MY_TOKEN"):
        Authenticator(settings({"name": "carol", "token_env": "MY_TOKEN"}), environ={})


def test_all_tokens_that_cannot_be_had_are_told():
    entries = [{"name": name, "token_env": name.upper()} for name in ("carol", "dave", "erin")]
    with pytest.raises(ConfigError) as caught:
        Authenticator(settings(*entries), environ={"DAVE": "short", "ERIN": TOKEN})
    missing, short = caught.value, *caught.value.others
    assert "'carol'" in missing.message
    assert "export CAROL=" in missing.hint
    assert "'dave'" in short.message
    assert "`enginehost token NAME`" in short.message


def test_one_subject_may_have_two_tokens_but_two_may_not_share_one():
    found = Authenticator(settings({"name": "a", "token": TOKEN}, {"name": "a", "token": OTHER}))
    assert found.authenticate_now(f"Bearer {TOKEN}", "http") == found.authenticate_now(
        f"Bearer {OTHER}", "http"
    )
    with pytest.raises(ConfigError, match="'a' and 'b'"):
        Authenticator(settings({"name": "a", "token": TOKEN}, {"name": "b", "token": TOKEN}))


def test_nothing_an_authenticator_keeps_holds_the_token():
    found = authenticator()
    assert found.authenticate_now(f"Bearer {TOKEN}", "http")
    assert TOKEN not in repr(vars(found)) + repr(vars(found._tokens))


@pytest.mark.parametrize("address", ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "host.example:80"])
def test_listening_for_other_machines_needs_tokens(address: str):
    with pytest.raises(ConfigError, match="reachable"):
        check_binding(HostSettings(), address)
    check_binding(settings({"name": "a", "token": TOKEN}), address)
    check_binding(HostSettings.model_validate({"oidc": [{"issuer": "https://i", "audience": "a"}]}), address)


def test_listening_on_loopback_needs_none():
    for address in ("127.0.0.1:80", "[::1]:0", "localhost:1", "8484"):
        check_binding(HostSettings(), address)
    with pytest.raises(ConfigError, match=r"http\.address"):
        check_binding(HostSettings(), "nonsense")
