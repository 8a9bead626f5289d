import base64
import hmac
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import JWKRegistry

from enginehost.auth import MAX_VERIFIED, Authenticator
from enginehost.auth_settings import OidcSettings
from enginehost.errors import EngineUnavailable, Unauthorized
from enginehost.jwks import FetchFailed, IssuerKeys, fetch_json, read_keys
from enginehost.jwt import JwtVerifier, claim, read_unverified
from enginehost.settings import HostSettings

from .issuer import Issuer, make_key, running_issuer

ALL = ("RS256", "PS256", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as made:
        yield made


RSA = make_key("RS256", "rsa")


@pytest.fixture(autouse=True)
def fresh(issuer: Issuer) -> None:
    issuer.keys = {"rsa": RSA}
    issuer.fetches, issuer.status, issuer.claimed = 0, 200, None


Clock = list[float]


def verifier(
    issuer: Issuer, clock: Clock | None = None, now: Clock | None = None, **settings: Any
) -> JwtVerifier:
    trusted = OidcSettings.model_validate({"issuer": issuer.url, "audience": ["us"], **settings})
    ticking: Callable[[], float] = (lambda: clock[0]) if clock else time.monotonic
    return JwtVerifier([trusted], clock=ticking, now=(lambda: now[0]) if now else time.time)


async def reason(verifier: JwtVerifier, token: str) -> str:
    with pytest.raises(Unauthorized) as caught:
        await verifier.verify(token)
    assert token not in f"{caught.value} {caught.value.detail}"
    return caught.value.detail["reason"]


@pytest.mark.parametrize("algorithm", ALL)
async def test_a_token_of_a_trusted_issuer_gives_its_caller(issuer: Issuer, algorithm: str):
    issuer.keys["key"] = make_key(algorithm, "key")
    token = issuer.token("key", algorithm, header={"nonce": "n" * 700}, scope="read write", org="acme")
    proof = await verifier(issuer, algorithms=[algorithm], tenant_claim="org", subject_prefix="i:").verify(
        token
    )
    caller = proof.through("http")
    assert (caller.subject, caller.tenant, caller.scopes) == ("i:alice", "acme", {"read", "write"})
    assert (caller.face, caller.authenticated, caller.claims["sub"]) == ("http", True, "alice")


async def test_claims_are_found_where_the_settings_say(issuer: Issuer):
    claims: dict[str, Any] = {"realm": {"roles": ["a", "b", 3]}, "https://x.example/who": "bob"}
    asked: dict[str, Any] = {"scope_claim": "realm.roles", "subject_claim": "https://x.example/who"}
    caller = (await verifier(issuer, **asked).verify(issuer.token(**claims))).caller
    assert (caller.subject, caller.scopes) == ("bob", {"a", "b"})
    assert claim({"a": {"b": 1}, "a.b": 2}, "a.b") == 2
    assert claim({"a": 1}, "a.b.c") is None


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "expiry"),
        ({"exp": True}, "malformed"),
        ({"exp": float("nan")}, "malformed"),
        ({"exp": float("inf")}, "malformed"),
        ({"exp": "9999999999"}, "malformed"),
        ({"nbf": 9_999_999_999}, "early"),
        ({"iat": 9_999_999_999}, "early"),
        ({"aud": "them"}, "audience"),
        ({"aud": ["them", {"us": 1}]}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": {"us": 1}}, "audience"),
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": ["x"]}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"sub": None}, "claims"),
        ({"sub": ""}, "claims"),
        ({"sub": 7}, "claims"),
    ],
)
async def test_claims_that_do_not_hold_are_refused(issuer: Issuer, claims: dict[str, Any], why: str):
    assert await reason(verifier(issuer), issuer.token(**claims)) == why


async def test_a_tenant_that_is_asked_for_and_missing_is_refused(issuer: Issuer):
    assert await reason(verifier(issuer, tenant_claim="org"), issuer.token()) == "claims"


@pytest.mark.parametrize(
    ("prefix", "subject", "why"),
    [
        ("", "anonymous", "subject"),
        ("", "local", "subject"),
        ("", "ci", "subject"),
        ("c", "i", "subject"),
        ("", "b:alice", "subject"),
        ("b", ":alice", "subject"),
        ("", "ci2", ""),
        ("", "b", ""),
        ("i:", "anonymous", ""),
        ("b:c:", "alice", ""),
    ],
)
async def test_a_jwt_makes_nobody_somebody_elses_double(issuer: Issuer, prefix: str, subject: str, why: str):
    issuers = [
        {"issuer": issuer.url, "audience": "us", "subject_prefix": prefix},
        {"issuer": "https://b.example", "audience": "us", "subject_prefix": "b:"},
    ]
    tokens = [{"name": "ci", "token": "a-token-of-some-length"}]
    asked = Authenticator(HostSettings.model_validate({"oidc": issuers, "tokens": tokens}))
    header = f"Bearer {issuer.token(sub=subject)}"
    if not why:
        assert (await asked.authenticate(header, "http")).subject == prefix + subject
        return
    with pytest.raises(Unauthorized) as caught:
        await asked.authenticate(header, "http")
    assert caught.value.detail == {"reason": why}


async def test_clocks_may_differ_by_the_leeway_and_no_more(issuer: Issuer):
    now = [1000.0]
    asked = verifier(issuer, now=now, leeway=30)
    times: dict[str, Any] = {"iat": 1000, "exp": 1000, "nbf": 1030}
    late: dict[str, Any] = {**times, "nbf": 1031}
    assert (await asked.verify(issuer.token(**times))).expires == 1030
    assert await reason(asked, issuer.token(**late)) == "early"
    now[0] = 1030
    assert await reason(asked, issuer.token(**times)) == "expired"


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"typ": "logout+jwt"}, "type"),
        ({"typ": 1}, "type"),
        ({"kid": "unknown"}, "key"),
        ({"kid": 5}, "malformed"),
        ({"kid": "oct"}, "key"),
        ({"crit": ["b64"], "b64": False}, "malformed"),
        ({"crit": 5}, "malformed"),
        ({"b64": False}, "malformed"),
    ],
)
async def test_headers_that_ask_for_more_are_refused(issuer: Issuer, header: dict[str, Any], why: str):
    assert await reason(verifier(issuer), issuer.token(header=header)) == why


async def test_a_token_without_key_id_is_checked_with_every_fitting_key(issuer: Issuer):
    issuer.keys |= {"ec": make_key("ES256", "ec"), "rsa2": make_key("RS256", "rsa2")}
    token = issuer.token("rsa2", header={"kid": None, "typ": "at+JWT"})
    assert (await verifier(issuer).verify(token)).caller.subject == "alice"


async def test_no_signature_and_another_signature_are_refused(issuer: Issuer):
    good = issuer.token()
    head, body, signature = good.split(".")
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none","kid":"rsa"}').rstrip(b"=").decode()
    asked = verifier(issuer)
    assert await reason(asked, f"{unsigned}.{body}.") == "algorithm"
    assert await reason(asked, f"{head}.{body}.") == "signature"
    assert await reason(asked, f"{head}.{body}.{signature[:-4]}AAAA") == "signature"
    assert await reason(asked, issuer.token(key=make_key("RS256", "rsa"))) == "signature"
    other = issuer.token(sub="root").split(".")[1]
    assert await reason(asked, f"{head}.{other}.{signature}") == "signature"


async def test_a_public_key_is_no_shared_secret(issuer: Issuer):
    _, body, _ = issuer.token().split(".")
    signed = _b64(b'{"alg":"HS256","kid":"rsa"}') + "." + body
    forged = f"{signed}.{_b64(hmac.digest(RSA.as_pem(private=False), signed.encode(), 'sha256'))}"
    assert await reason(verifier(issuer), forged) == "algorithm"


async def test_a_key_is_used_with_algorithms_of_its_own_kind_only(issuer: Issuer):
    issuer.keys |= {"p384": make_key("ES384", "p384"), "ec": make_key("ES256", "ec")}
    bound = RSA.as_dict(private=True) | {"alg": "PS256", "kid": "bound"}
    issuer.keys["bound"] = JWKRegistry.import_key(bound)
    asked = verifier(issuer, algorithms=["RS256", "ES256", "PS256"])
    assert await reason(asked, issuer.token("rsa", header={"kid": "ec"})) == "key"
    assert await reason(asked, issuer.token("ec", "ES256", header={"kid": "p384"})) == "key"
    assert await reason(asked, issuer.token("bound")) == "key"
    assert await asked.verify(issuer.token("bound", "PS256"))


async def test_an_algorithm_that_the_settings_leave_out_is_refused(issuer: Issuer):
    assert await reason(verifier(issuer, algorithms=["ES256"]), issuer.token()) == "algorithm"


async def test_keys_are_fetched_once_and_again_when_the_issuer_rotates(issuer: Issuer):
    clock = [0.0]
    asked = verifier(issuer, clock)
    for _ in range(3):
        await asked.verify(issuer.token())
    assert issuer.fetches == 1
    issuer.keys = {"next": make_key("RS256", "next")}
    clock[0] = 60
    await asked.verify(issuer.token("next"))
    assert issuer.fetches == 2
    assert await reason(asked, issuer.token("rsa", key=RSA)) == "key"


async def test_unknown_key_ids_cannot_make_the_host_hammer_its_issuer(issuer: Issuer):
    clock = [0.0]
    asked = verifier(issuer, clock)
    for number in range(20):
        assert await reason(asked, issuer.token(header={"kid": str(number)})) == "key"
    assert issuer.fetches == 1
    await asked.verify(issuer.token())


async def test_a_token_whose_claims_do_not_hold_causes_no_fetch(issuer: Issuer):
    await reason(verifier(issuer), issuer.token(exp=1))
    assert issuer.fetches == 0


async def test_many_first_calls_at_once_fetch_once(issuer: Issuer):
    asked, token = verifier(issuer), issuer.token()
    async with anyio.create_task_group() as group:
        for _ in range(30):
            group.start_soon(asked.verify, token)
    assert issuer.fetches == 1


async def test_a_cancelled_fetch_leaves_the_next_caller_free_to_try():
    started, tries = anyio.Event(), 0

    async def slow(url: str) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            started.set()
            await anyio.sleep_forever()
        return {"keys": [RSA.as_dict(private=False)]}

    trusted = OidcSettings(issuer="https://i.example", audience=("us",), jwks_uri="https://i.example/k")
    keys = IssuerKeys(trusted, fetch=slow)
    async with anyio.create_task_group() as group:
        group.start_soon(keys.matching, "rsa", "RS256")
        await started.wait()
        group.cancel_scope.cancel()
    assert await keys.matching("rsa", "RS256")


async def test_while_the_issuer_is_down_nobody_is_let_in_and_it_is_not_the_callers_fault(issuer: Issuer):
    clock = [0.0]
    asked, token = verifier(issuer, clock), issuer.token()
    issuer.status = 503
    with pytest.raises(EngineUnavailable):
        await asked.verify(token)
    issuer.status = 200
    with pytest.raises(EngineUnavailable):
        await asked.verify(token)
    clock[0] = 3
    assert await asked.verify(token)


async def test_known_keys_outlast_an_outage_of_a_day_and_no_longer(issuer: Issuer):
    clock = [0.0]
    asked, token = verifier(issuer, clock), issuer.token()
    await asked.verify(token)
    issuer.status = 500
    clock[0] = 23 * 3600.0
    assert await asked.verify(token)
    assert issuer.fetches == 2
    clock[0] = 25 * 3600.0
    with pytest.raises(EngineUnavailable):
        await asked.verify(token)


async def test_an_issuer_that_nobody_runs_is_unavailable():
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    gone = Issuer.__new__(Issuer)
    gone.url, gone.keys = url, {"rsa": RSA}
    with pytest.raises(EngineUnavailable) as caught:
        await verifier(gone).verify(gone.token())
    assert url not in caught.value.message


async def test_a_discovery_document_of_another_issuer_is_not_believed(issuer: Issuer):
    issuer.claimed = "https://evil.example"
    with pytest.raises(EngineUnavailable):
        await verifier(issuer).verify(issuer.token())
    assert issuer.fetches == 0


async def test_a_given_key_address_needs_no_discovery(issuer: Issuer):
    issuer.claimed = "https://evil.example"
    assert await verifier(issuer, jwks_uri=f"{issuer.url}/keys").verify(issuer.token())


@pytest.mark.parametrize("path", ["/redirect", "/huge", "/text", "/missing"])
async def test_an_answer_that_is_no_key_set_is_refused(issuer: Issuer, path: str):
    with pytest.raises(FetchFailed):
        await fetch_json(issuer.url + path)


@pytest.mark.parametrize("document", [None, [], {}, {"keys": {}}, {"keys": "x"}])
def test_what_is_no_key_set_is_refused(document: Any):
    with pytest.raises(FetchFailed):
        read_keys(document)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda v: st.lists(v, max_size=2),
    max_leaves=3,
)
odd_names = st.sampled_from(["kty", "n", "e", "crv", "x", "y", "use", "alg", "kid", "key_ops", "d"])
odd_texts = st.sampled_from(["RSA", "EC", "OKP", "AQAB", "P-256", "Ed25519", "A" * 400, "A" * 43, "sig"])
odd_key = st.dictionaries(odd_names, odd_texts | json_values)


@given(st.lists(odd_key | json_values, max_size=4))
def test_no_key_set_breaks_the_reading(listed: list[Any]):
    assert all(key.kind != "oct" for key in read_keys({"keys": listed}))


def test_weak_encryption_only_and_private_keys_give_no_more_than_public_signature_keys():
    weak = {**RSA.as_dict(private=False), "n": "A" * 171}
    other_use = {**RSA.as_dict(private=False), "use": "enc"}
    no_verify = {**RSA.as_dict(private=False), "use": "sig", "key_ops": ["sign"]}
    assert read_keys({"keys": [weak, other_use, no_verify]}) == ()
    (found,) = read_keys({"keys": [RSA.as_dict(private=True)]})
    assert not found.key.is_private


@given(st.text(max_size=40) | st.from_regex(r"[\w-]{0,30}\.[\w-]{0,30}\.[\w-]{0,10}", fullmatch=True))
def test_no_text_breaks_the_token_reader(token: str):
    with suppress(Unauthorized):
        read_unverified(token)


@pytest.mark.parametrize("head", ["[" * 9000, "{", "5", '{"alg":"RS256"}'])
def test_a_huge_or_nested_token_is_refused(head: str):
    for body in ("{}" * 9000, "[" * 6000):
        with pytest.raises(Unauthorized):
            read_unverified(f"{_b64(head.encode())}.{_b64(body.encode())}.x")


def authenticator(issuer: Issuer, now: Clock) -> Authenticator:
    settings = HostSettings.model_validate({"oidc": [{"issuer": issuer.url, "audience": "us"}]})
    return Authenticator(settings, verifier=verifier(issuer, now=now), now=lambda: now[0])


async def test_a_verified_token_is_remembered_until_it_expires(issuer: Issuer):
    now = [time.time()]
    asked, header = authenticator(issuer, now), f"Bearer {issuer.token(exp=int(now[0]) + 60)}"
    assert asked.authenticate_now(header, "http") is None
    first = await asked.authenticate(header, "http")
    assert asked.authenticate_now(header, "http") is first
    mcp = asked.authenticate_now(header, "mcp")
    assert mcp is not None
    assert mcp.face == "mcp"
    now[0] += 91
    assert asked.authenticate_now(header, "http") is None
    with pytest.raises(Unauthorized, match="expired"):
        await asked.authenticate(header, "http")


async def test_a_withdrawn_key_stops_counting_within_minutes(issuer: Issuer):
    now = [time.time()]
    asked, header = authenticator(issuer, now), f"Bearer {issuer.token(exp=int(now[0]) + 7200)}"
    await asked.authenticate(header, "http")
    now[0] += 301
    assert asked.authenticate_now(header, "http") is None


async def test_a_wrong_jwt_is_never_anonymous_and_never_remembered(issuer: Issuer):
    asked = authenticator(issuer, [time.time()])
    for token in (issuer.token(aud="them"), "a.b.c"):
        for _ in range(2):
            assert asked.authenticate_now(f"Bearer {token}", "http") is None
            with pytest.raises(Unauthorized):
                await asked.authenticate(f"Bearer {token}", "http")


async def test_remembered_tokens_are_bounded(issuer: Issuer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("enginehost.auth.MAX_VERIFIED", 3)
    asked = authenticator(issuer, [time.time()])
    for number in range(5):
        await asked.authenticate(f"Bearer {issuer.token(sub=str(number))}", "http")
    assert len(asked._verified) == 3
    assert MAX_VERIFIED < 10_000


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_the_signer_of_these_tests_makes_good_signatures(issuer: Issuer):
    assert jws.deserialize_compact(issuer.token(), RSA, algorithms=["RS256"]).payload
