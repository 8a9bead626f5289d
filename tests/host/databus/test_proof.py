"""What a caller takes for the answer of whom it asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from enginehost.caller import Caller
from enginehost.databus.capability import capability_of
from enginehost.databus.directory import Signer
from enginehost.databus.identity import Identity
from enginehost.databus.keys import SigningKey, new_key, written
from enginehost.databus.port import ExecutionReply, ExecutionRequest
from enginehost.databus.proof import Proofs
from enginehost.databus.replicas import Provider
from enginehost.databus.signing import Audience, sign_capability, sign_reply, verify_request
from enginehost.databus.trust import Trust, TrustedKey
from enginehost.errors import Unauthorized
from enginehost.signature import FunctionSignature
from enginehost.values import encode

ME = "0" * 32
PLANT, OTHER, MINE = new_key(), new_key(), new_key()


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    file = tmp_path / "trusted.yaml"
    lines = (
        f"- name: {name}\n  key: {written(key.public)}\n"
        for name, key in (("plant", PLANT), ("other", OTHER))
    )
    file.write_text("keys:\n" + "".join(lines))
    return Trust(file)


def proofs(trust: Trust, key: SigningKey | None = MINE, *, accepts_any: bool = False) -> Proofs:
    return Proofs(lambda: ME, trust, key, accepts_any=accepts_any)


def provider(key: SigningKey | None = PLANT) -> Provider:
    return Provider("p", "host", "a" * 32, f"eh.{'a' * 32}", "plant" if key else "", key.id if key else "")


def reply(key: SigningKey | None = PLANT, to: str = MINE.id, requester: str = ME) -> ExecutionReply:
    plain = ExecutionReply("r", "f", b"3", 0, "", 1, encode({"final": True, "to": to}))
    return plain if key is None else sign_reply(plain, key, requester)


def test_a_signed_answer_to_a_signed_request_is_taken(trust: Trust) -> None:
    proofs(trust).reply(reply(), provider())


@pytest.mark.parametrize(
    "forged",
    [
        reply(None),
        reply(OTHER),
        reply(new_key()),
        reply(requester="b" * 32),
        reply(to=OTHER.id),
        reply(to=""),
        replace(reply(), result=b"4"),
        replace(reply(), status=3),
        replace(reply(), request_id="r2"),
        replace(reply(), function_id="g"),
        replace(reply(), timestamp=2),
        replace(reply(), error_message="x"),
    ],
)
def test_what_was_changed_or_is_of_somebody_else_is_not_taken(forged: ExecutionReply, trust: Trust) -> None:
    with pytest.raises(Unauthorized):
        proofs(trust).reply(forged, provider())


def test_of_a_provider_that_signs_nothing_no_signature_is_asked(trust: Trust) -> None:
    proofs(trust).reply(reply(None), provider(None))


def test_requests_are_signed_for_whom_they_are_meant_and_numbered(trust: Trust) -> None:
    asked, target = ExecutionRequest("r", "f", b"{}", 1, encode({"ack": True})), provider()
    mine = TrustedKey(MINE.id, MINE.public, Caller("me", face="databus"))
    prover = proofs(trust)
    for number in (1, 2, 3):
        signed = prover.request(asked, target)
        assert verify_request(signed, Audience("host", "a" * 32), {MINE.id: mine}.get).seq == number
        with pytest.raises(Unauthorized):
            verify_request(signed, Audience("host", "b" * 32), {MINE.id: mine}.get)


def test_without_a_key_requests_go_as_they_are(trust: Trust) -> None:
    asked = ExecutionRequest("r", "f", b"{}", 1, b"{}")
    assert proofs(trust, None).request(asked, provider()) is asked


def test_capabilities_have_the_name_of_the_trusted_key_that_signed_them(trust: Trust) -> None:
    plain = capability_of(FunctionSignature("add"), Identity(None), "calc", 1, public=True)
    signed = sign_capability(plain, PLANT)
    assert proofs(trust).capability(signed) == Signer("plant", PLANT.id)
    for wrong in (plain, sign_capability(plain, new_key()), replace(signed, description="x")):
        with pytest.raises(Unauthorized):
            proofs(trust).capability(wrong)


def test_where_any_are_let_in_only_a_wrong_signature_keeps_one_out(trust: Trust) -> None:
    plain = capability_of(FunctionSignature("add"), Identity(None), "calc", 1, public=True)
    some = proofs(trust, accepts_any=True)
    assert some.capability(plain) == Signer()
    assert some.capability(sign_capability(plain, new_key())) == Signer()
    with pytest.raises(Unauthorized):
        some.capability(replace(sign_capability(plain, PLANT), parameter_schema="{}"))


def test_a_key_that_is_held_to_its_services_offers_no_others(tmp_path: Path) -> None:
    file = tmp_path / "trusted.yaml"
    file.write_text(f"keys:\n- name: plant\n  key: {written(PLANT.public)}\n  services: [plant-*]\n")
    file.chmod(0o600)
    some = proofs(Trust(file))
    for service, fits in (("plant-a", True), ("calc", False)):
        plain = capability_of(FunctionSignature("add"), Identity(None), service, 1, public=True)
        if fits:
            assert some.capability(sign_capability(plain, PLANT)).name == "plant"
        else:
            with pytest.raises(Unauthorized, match="may not offer"):
                some.capability(sign_capability(plain, PLANT))
