"""Signatures of AWS: its published examples, and what a server checks by the rules, written down anew."""

import datetime
import hashlib
import hmac
import re
from typing import Any
from urllib.parse import quote, unquote

import botocore.auth
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.errors import ConfigError, EngineUnavailable
from enginehost_engines.rest import sigv4, tls
from enginehost_engines.rest.request import Message
from enginehost_engines.rest.sigv4 import AwsProof, canonical
from enginehost_engines.rest.url import Origin

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
KEYS = {
    "AUTH_AWS_REGION": "us-east-1",
    "AUTH_AWS_SERVICE": "service",
    "AUTH_AWS_ACCESS_KEY_ID": KEY,
    "AUTH_AWS_SECRET_ACCESS_KEY": SECRET,
}

PUBLISHED = {
    "get-vanilla": ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    "get-vanilla-query-order-key-case": (
        "GET",
        "/?Param2=value2&Param1=value1",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "post-vanilla": ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
}
"""Of AWS's Signature Version 4 test suite: method, target, signature."""


@pytest.mark.parametrize(("method", "target", "signature"), PUBLISHED.values(), ids=PUBLISHED)
def test_the_published_examples_are_signed_as_published(
    monkeypatch: pytest.MonkeyPatch, method: str, target: str, signature: str
) -> None:
    from botocore.credentials import ReadOnlyCredentials

    moment = datetime.datetime(2015, 8, 30, 12, 36)  # noqa: DTZ001 - as botocore has it
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: moment)
    origin = Origin("https", "example.amazonaws.com", 443)
    message = Message(method, origin, target.encode(), ((b"Host", b"example.amazonaws.com"),), b"")
    signed = AwsProof(ReadOnlyCredentials(KEY, SECRET, None), "service", "us-east-1")(message)
    headers = dict(signed.headers)
    assert headers[b"X-Amz-Date"] == b"20150830T123600Z"
    assert headers[b"Authorization"].decode() == (
        f"AWS4-HMAC-SHA256 Credential={KEY}/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={signature}"
    )


def signature_of(seen: Any, service: str) -> tuple[str, str]:
    """The signature that arrived, and the one that it must be, by AWS's rules."""
    told = seen.header("authorization").decode()
    names = re.findall(r"SignedHeaders=([^,]+)", told)[0].split(";")
    path, _, query = seen.target.decode().partition("?")
    path = "/".join(quote(unquote(part), safe="") for part in path.split("/"))
    if service != "s3":
        path = quote(path, safe="/")
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    encoded = sorted((quote(unquote(k), safe=""), quote(unquote(v), safe="")) for k, _, v in pairs)
    lines = [
        seen.method,
        path,
        "&".join(f"{key}={value}" for key, value in encoded),
        *(f"{name}:{seen.header(name).decode()}" for name in names),
        "",
        ";".join(names),
        hashlib.sha256(seen.body).hexdigest(),
    ]
    moment = seen.header("x-amz-date").decode()
    scope = f"{moment[:8]}/us-east-1/{service}/aws4_request"
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"
    return told.rpartition("Signature=")[2], hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)


@given(segment=TEXT, value=TEXT, more=st.lists(TEXT, max_size=3), service=st.sampled_from(["s3", "service"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_arrives_is_signed_whatever_the_values(
    sender: Any, segment: str, value: str, more: list[str], service: str
) -> None:
    segment = re.sub(r"[./\\%…．‥／＼﹒﹨⁄]", "_", segment)
    keys = {**KEYS, "AUTH_AWS_SERVICE": service, "HEADERS": {"X-Amz-Target": "T.x"}}
    placement = {"more": "query", "q": "query", "body": "body"}
    seen = sender.send(
        {"seg": segment, "q": value, "more": more, "body": value},
        path="/a:b(1)/{seg}?z&lit=a,b'&y=%7e",
        PARAMETER_PLACEMENT=placement,
        **keys,
    )
    arrived, expected = signature_of(seen, service)
    assert arrived == expected
    assert b"lit=a%2Cb%27" in seen.target


async def test_a_session_token_travels_signed_and_no_secret_is_told(make: Any, server: Any, kit: Any) -> None:
    keys = KEYS | {"AUTH_AWS_SESSION_TOKEN": "hush-session"}
    server.answer = kit.plain(f"{SECRET} hush-session".encode(), "text/plain", status=403)
    with pytest.raises(Exception, match=r"answered 403: \*\*\* \*\*\*$"):
        await make(**keys).execute({}, kit.call())
    assert server.last.header("x-amz-security-token") == b"hush-session"
    assert b"x-amz-security-token" in (server.last.header("authorization") or b"")
    arrived, expected = signature_of(server.last, "service")
    assert arrived == expected


async def test_each_redirect_is_signed_anew(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.redirect_once
    await make(URL=f"{server.url}/a/302-there", **KEYS).execute({}, kit.call())
    assert server.last.target == b"/a/there"
    arrived, expected = signature_of(server.last, "service")
    assert arrived == expected


async def test_without_keys_in_the_file_those_of_the_surroundings_sign(
    make: Any, server: Any, kit: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    keys = {"AUTH": "sigv4", "AUTH_AWS_REGION": "us-east-1", "AUTH_AWS_SERVICE": "service"}
    sigv4._chain.cache_clear()
    try:
        with pytest.raises(EngineUnavailable, match="no AWS credentials are in the file, nor"):
            await make(**keys).execute({}, kit.call())
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        sigv4._chain.cache_clear()
        await make(**keys).execute({}, kit.call())
    finally:
        sigv4._chain.cache_clear()
    arrived, expected = signature_of(server.last, "service")
    assert arrived == expected


@pytest.mark.parametrize("lost", ["AUTH_AWS_REGION", "AUTH_AWS_SERVICE", "AUTH_AWS_SECRET_ACCESS_KEY"])
def test_a_key_that_is_missing_is_named(kit: Any, lost: str) -> None:
    keys = {"URL": "https://h/", "AUTH": "sigv4", **KEYS}
    del keys[lost]
    with pytest.raises(ConfigError, match=f"{lost} is missing, which AUTH = sigv4 needs"):
        kit.config(**keys)


async def test_a_library_that_is_missing_is_named(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "find_spec", lambda name: None)
    for keys, hint in (({"AUTH": "sigv4", **KEYS}, "aws"), (KEYS, "aws"), ({"HTTP2": True}, "http2")):
        with pytest.raises(ConfigError, match="needs the library") as refused:
            make(**keys)
        assert refused.value.hint.endswith(f"pip install enginehost[{hint}]")


@given(st.binary(max_size=30))
def test_an_address_in_its_canonical_form_says_the_same(raw: bytes) -> None:
    target = "/" + quote(raw, safe="/?&=:,+'()")
    made = canonical(target.encode()).decode()
    assert unquote(made, errors="surrogateescape") == unquote(target, errors="surrogateescape")
    assert canonical(made.encode()).decode() == made
