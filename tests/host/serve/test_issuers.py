"""A JWT (OpenID Connect, OAuth2) over real HTTP, with the issuer's keys on a server of its own."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.host.issuer import Issuer, closed_issuer, make_key, running_issuer

KEY = make_key("RS256", "rsa")
STATIC = "a-token-that-needs-no-issuer"
POLICY = {
    "rules": [
        {"allow": "call", "subjects": ["alice"], "functions": ["whoami", "add"]},
        {"allow": "call", "subjects": ["bob", "static"], "functions": ["whoami"]},
    ]
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as made:
        made.keys = {"rsa": KEY}
        yield made


def trusting(issuer: Issuer) -> dict[str, Any]:
    return {
        "oidc": [{"issuer": issuer.url, "audience": "us"}],
        "tokens": [{"name": "static", "token": STATIC}],
        "policy": POLICY,
    }


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_a_jwt_of_a_trusted_issuer_calls_as_its_subject_and_may_what_that_one_may(
    serve: Any, issuer: Issuer
) -> None:
    async with serve(**trusting(issuer)) as served:
        for subject, allowed in (("alice", {"add", "whoami"}), ("bob", {"whoami"}), ("carol", set())):
            headers = bearer(issuer.token(sub=subject))
            added = await served.call("add", {"a": 1, "b": 2}, headers=headers)
            assert added.status_code == (200 if "add" in allowed else 404)
            asked = await served.call("whoami", headers=headers)
            assert asked.status_code == (200 if allowed else 404)
            assert not allowed or asked.json()["result"]["subject"] == subject
            listed = (await served.client.get("/v1/functions", headers=headers)).json()["functions"]
            assert {one["name"] for one in listed} == allowed
    assert issuer.fetches == 1


def forgeries(issuer: Issuer) -> dict[str, str]:
    """Tokens that say what they should and whose signature the issuer did not make."""
    head, _, signature = issuer.token(sub="bob").split(".")
    _, claims, _ = issuer.token().split(".")
    unsigned = base64.urlsafe_b64encode(json.dumps({"alg": "none", "kid": "rsa"}).encode()).decode()
    return {
        "another key of the same name": issuer.token(key=make_key("RS256", "rsa")),
        "claims put in place of others": f"{head}.{claims}.{signature}",
        "no signature": f"{unsigned.rstrip('=')}.{claims}.",
    }


async def test_a_jwt_that_is_expired_forged_or_anothers_is_401_on_every_route(
    serve: Any, issuer: Issuer
) -> None:
    wrong = forgeries(issuer) | {
        "expired": issuer.token(exp=1),
        "for another audience": issuer.token(aud="them"),
        "of another issuer": issuer.token(iss="https://other.example"),
    }
    async with serve(**trusting(issuer)) as served:
        for why, token in wrong.items():
            headers = bearer(token)
            for answer in (
                await served.call("whoami", headers=headers),
                await served.call("whoami", headers=headers | {"accept": "text/event-stream"}),
                await served.client.get("/v1/functions", headers=headers),
            ):
                assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), why
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert token not in answer.text
        assert (await served.call("whoami", headers=bearer(issuer.token()))).status_code == 200


@pytest.fixture(params=["nobody listens", "it answers with an error"])
def broken_issuer(request: pytest.FixtureRequest) -> Iterator[Issuer]:
    with running_issuer() if request.param != "nobody listens" else closed_issuer() as made:
        made.keys, made.status = {"rsa": KEY}, 500
        yield made


async def test_while_the_issuers_keys_cannot_be_had_a_jwt_is_503_and_other_tokens_count(
    serve: Any, broken_issuer: Issuer
) -> None:
    async with serve(**trusting(broken_issuer)) as served:
        headers = bearer(broken_issuer.token())
        for answer in (
            await served.call("whoami", headers=headers),
            await served.client.get("/v1/functions", headers=headers),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "engine_unavailable")
            assert "issuer does not answer" in answer.json()["detail"]
            assert broken_issuer.url not in answer.text
        answer = await served.call("whoami", headers=bearer(STATIC))
        assert answer.json()["result"]["subject"] == "static"
        expired = await served.call("whoami", headers=bearer(broken_issuer.token(exp=1)))
        assert expired.status_code == 401
