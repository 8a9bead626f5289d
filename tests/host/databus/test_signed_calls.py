"""Signed requests: whose they are, and what forgers cannot do."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from enginehost.databus.guard import Guard
from enginehost.databus.identity import Identity
from enginehost.databus.keys import SigningKey, new_key, written
from enginehost.databus.port import ExecutionRequest
from enginehost.databus.signing import Audience, sign_request, verify_reply
from enginehost.databus.trust import KeyEntry, Trust, read_trust, trust_key
from enginehost.engine import Call
from enginehost.policy import authenticated_policy
from enginehost.values import LARGE

from .wired_responder import MINE, Held, Make, Provider, error


@pytest.fixture
def signer() -> SigningKey:
    return new_key()


@pytest.fixture
def trusting(tmp_path: Any, signer: SigningKey) -> Callable[[Identity], Guard]:
    path = tmp_path / "trusted.yaml"
    trust_key(path, KeyEntry(name="friend", key=written(signer.public)))
    assert read_trust(path).keys
    return lambda identity: Guard(identity, Trust(path), new_key())


def signed(one: Provider, signer: SigningKey, seq: int, *given: Any, **options: Any) -> ExecutionRequest:
    audience = Audience(one.identity.host_id, one.identity.incarnation)
    return sign_request(one.request(*given, **options), signer, audience, sender=MINE, seq=seq)


async def test_a_signed_request_is_that_of_the_trusted_key_and_its_reply_is_signed(
    provider: Make, signer: SigningKey, trusting: Any
) -> None:
    one = provider(authenticated_policy(), trusting)
    one.host.put("add")
    parameters = {"a": 1, "b": 2}
    await one.responder.receive([signed(one, signer, 1, "add", "s", parameters)])
    reply = await one.wire.answered("s")
    assert reply.result == b"3"
    assert json.loads(reply.metadata)["to"] == signer.id
    key = one.responder._guard._key  # type: ignore[union-attr]
    assert key is not None

    class Known:
        id, public, caller = key.id, key.public, None

    verify_reply(reply, MINE, lambda _: Known, signer=key.id)  # type: ignore[arg-type,return-value]
    await one.ask("add", "unsigned", parameters)
    assert error(await one.wire.answered("unsigned"))["code"] in (
        "forbidden",
        "unauthorized",
        "unknown_function",
    )


@pytest.mark.parametrize("size", [10, LARGE])
async def test_forged_replayed_and_repeated_requests_do_not_run(
    provider: Make, signer: SigningKey, trusting: Any, size: int
) -> None:
    one, runs = provider(authenticated_policy(), trusting), []

    async def run(arguments: dict[str, Any], call: Call) -> None:
        runs.append(call.caller.subject)

    one.host.put("run", run)
    padding = {"x": "x" * size}
    good = signed(one, signer, 1, "run", "good", padding)
    await one.responder.receive([good, good])
    await one.wire.answered("good")
    await one.responder.receive([good])  # it arrives again, and does not run again
    tampered = signed(one, signer, 2, "run", "tampered", padding)
    other = {"x": "y" * size}
    await one.responder.receive([replace(tampered, parameters=json.dumps(other).encode())])
    assert error(await one.wire.answered("tampered"))["detail"]["reason"] == "bad-signature"
    await one.responder.receive([signed(one, new_key(), 3, "run", "stranger", padding)])
    assert error(await one.wire.answered("stranger"))["detail"]["reason"] == "untrusted-key"
    await one.responder.receive([signed(one, signer, 1, "run", "old number", padding)])
    assert error(await one.wire.answered("old number"))["detail"]["reason"] == "replayed"
    elsewhere = Audience("another host", one.identity.incarnation)
    await one.responder.receive(
        [sign_request(one.request("run", "elsewhere", padding), signer, elsewhere, sender=MINE, seq=4)]
    )
    assert error(await one.wire.answered("elsewhere"))["detail"]["reason"] == "bad-signature"
    await one.responder.receive([tampered])  # a forgery took nothing from the request it was made of
    await one.wire.until(lambda: [r for r, s in one.wire.of("tampered") if r.status == 0])
    assert runs == ["friend", "friend"]
    assert {reply.result for reply, said in one.wire.of("good") if said.final} == {b"null"}


async def test_only_the_signer_of_a_call_cancels_it(
    provider: Make, signer: SigningKey, trusting: Any
) -> None:
    one, held = provider(authenticated_policy(), trusting), Held()
    one.host.put("held", held.run)
    await one.responder.receive([signed(one, signer, 1, "held", "s")])
    await held.begun.wait()
    await one.ask("held", "s", control="cancel", **{"from": MINE})
    await one.ask("held", "s", control="cancel", key=signer.id, **{"from": MINE})
    cancel = signed(one, signer, 2, "held", "s", control="cancel")
    forged = replace(cancel, timestamp=2)
    await one.responder.receive([forged])
    for _ in range(20):
        await asyncio.sleep(0)
    assert held.cancelled == 0
    await one.responder.receive([cancel])
    assert error(await one.wire.answered("s"))["code"] == "cancelled"


@pytest.mark.parametrize("hours", [-1, 1, 24 * 365 * 30])
async def test_a_clock_that_is_off_costs_no_call(
    provider: Make, signer: SigningKey, trusting: Any, hours: int
) -> None:
    one = provider(guard=trusting)
    one.host.put("add")
    then = int((time.time() + hours * 3600) * 1000)
    plain = replace(one.request("add", "plain", {"a": 1, "b": 2}, timeout=5), timestamp=then)
    unsigned = replace(one.request("add", "s", {"a": 1, "b": 2}), timestamp=then)
    audience = Audience(one.identity.host_id, one.identity.incarnation)
    sealed = sign_request(unsigned, signer, audience, sender=MINE, seq=1)
    await one.responder.receive([plain, sealed])
    assert (await one.wire.answered("plain")).result == b"3"
    assert (await one.wire.answered("s")).result == b"3"
