"""What a signature covers: nothing of a message can be changed, re-targeted, or taken for another kind."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost.caller import Caller
from enginehost.databus.capability import capability_of
from enginehost.databus.identity import Identity
from enginehost.databus.keys import SigningKey, new_key
from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest
from enginehost.databus.signing import (
    REQUEST,
    SEALED_BYTES,
    Audience,
    seal,
    sign_capability,
    sign_reply,
    sign_request,
    unseal,
    verify_capability,
    verify_reply,
    verify_request,
)
from enginehost.databus.trust import TrustedKey
from enginehost.errors import InvalidRequest, Unauthorized
from enginehost.signature import FunctionSignature

KEY, OTHER, STRANGER = new_key(), new_key(), new_key()
HOST = Audience("host", "start")


def trusted(key: SigningKey, name: str) -> TrustedKey:
    return TrustedKey(key.id, key.public, Caller(name, face="databus"))


TRUSTED = {KEY.id: trusted(KEY, "plant"), OTHER.id: trusted(OTHER, "other")}
find = TRUSTED.get

REQUEST_GIVEN = ExecutionRequest("r1", "f1", b'{"a":1}', 5, b'{"timeout":2}', "writer", "participant")
REPLY_GIVEN = ExecutionReply("r1", "f1", b"3", 0, "", 7, b'{"final":true}', "participant")
CAPABILITY_GIVEN = capability_of(FunctionSignature(name="add"), Identity(None), "calculator", 7, public=False)


def signed_request(key: SigningKey = KEY) -> ExecutionRequest:
    return sign_request(REQUEST_GIVEN, key, HOST, sender="requester", seq=1)


def signed_reply(key: SigningKey = KEY) -> ExecutionReply:
    return sign_reply(REPLY_GIVEN, key, "requester")


def check_request(request: ExecutionRequest) -> Any:
    return verify_request(request, HOST, find)


def check_reply(reply: ExecutionReply) -> Any:
    return verify_reply(reply, "requester", find, signer=KEY.id)


def check_capability(capability: Capability) -> Any:
    return verify_capability(capability, find)


def reason(check: Callable[[], Any]) -> str:
    with pytest.raises(Unauthorized) as caught:
        check()
    return caught.value.detail["reason"]


def test_who_signed_is_known_with_what_they_said() -> None:
    request = check_request(signed_request())
    assert request.by.caller.subject == "plant"
    assert (request.sender, request.seq) == ("requester", 1)
    assert json.loads(request.body) == {"timeout": 2, "from": "requester", "seq": 1, "key": KEY.id}
    assert json.loads(check_reply(signed_reply()).body) == {"final": True, "key": KEY.id}
    capability = sign_capability(CAPABILITY_GIVEN, KEY)
    said = json.loads(check_capability(capability).body)
    assert said == json.loads(CAPABILITY_GIVEN.classification) | {"key": KEY.id}
    assert capability == replace(CAPABILITY_GIVEN, classification=capability.classification)


def test_the_format_stays_as_others_have_been_told() -> None:
    request = signed_request()
    body, _, suffix = request.metadata.rpartition(b',"sig":"')
    assert len(suffix) == 90
    assert suffix.endswith(b'=="}')
    parts = (b"host", b"start", b"r1", b"f1", b'{"a":1}', b"5", body + b"}")
    message = b"enginehost request 1" + b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    KEY.private.public_key().verify(base64.b64decode(suffix[:88]), message)


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=6,
)
objects = st.dictionaries(st.text(), plain, min_size=1, max_size=4)


@given(objects, st.sampled_from([None, 1]), st.booleans())
def test_any_json_object_can_be_sealed_and_stays_one(
    given: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(given, indent=indent, ensure_ascii=ascii_only).encode(errors="replace")
    sealed = seal(text, KEY, (REQUEST, text))
    found = unseal(sealed)
    assert found is not None
    assert found[0] == text
    members = json.loads(sealed)
    assert members.pop("sig") == base64.b64encode(found[1]).decode()
    assert members == json.loads(text)


@given(st.binary(max_size=200))
def test_what_has_no_signature_at_its_end_has_none(text: bytes) -> None:
    assert unseal(text) is None
    assert unseal(text + b',"sig":"' + b"A" * 88 + b'"}') is None
    assert unseal(text + b',"sig":"' + b"A" * 86 + b'=="}]') is None
    # the last character before the padding has four bits that mean nothing: one way to write them is enough
    assert unseal(text + b',"sig":"' + b"A" * 85 + b'B=="}') is None


CHANGES: dict[str, Any] = {
    "request": (signed_request(), check_request, {"source", "participant"}),
    "reply": (signed_reply(), check_reply, {"participant"}),
    "capability": (sign_capability(CAPABILITY_GIVEN, KEY), check_capability, set()),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_no_member_can_be_changed(kind: str) -> None:
    message, check, free = CHANGES[kind]
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name in ("metadata", "classification"):
            continue
        changed = value + 1 if isinstance(value, int) else value + (b" " if isinstance(value, bytes) else " ")
        other = replace(message, **{field.name: changed})
        if field.name in free:
            assert check(other)
        else:
            assert reason(lambda other=other: check(other)) == "bad-signature", field.name


@given(st.sampled_from(sorted(CHANGES)), st.data())
def test_no_byte_of_the_metadata_can_be_changed(kind: str, data: st.DataObject) -> None:
    message, check, _ = CHANGES[kind]
    name = "classification" if kind == "capability" else "metadata"
    text = getattr(message, name)
    octets = bytearray(text.encode() if isinstance(text, str) else text)
    at = data.draw(st.integers(0, len(octets) - 1))
    octets[at] ^= data.draw(st.integers(1, 255))
    value: Any = octets.decode(errors="surrogateescape") if isinstance(text, str) else bytes(octets)
    assert reason(lambda: check(replace(message, **{name: value}))) in {
        "bad-signature",
        "untrusted-key",
        "unsigned",
    }


def test_members_cannot_be_moved_into_each_other() -> None:
    moved = replace(signed_request(), request_id="r", function_id="1f1")
    assert reason(lambda: check_request(moved)) == "bad-signature"


@pytest.mark.parametrize("audience", [Audience("another", "start"), Audience("host", "later")])
def test_a_request_counts_at_the_host_and_the_start_that_was_meant(audience: Audience) -> None:
    assert reason(lambda: verify_request(signed_request(), audience, find)) == "bad-signature"


def test_a_reply_counts_at_its_requester_and_from_the_function_s_own_host() -> None:
    reply = signed_reply()
    assert reason(lambda: verify_reply(reply, "another", find, signer=KEY.id)) == "bad-signature"
    assert reason(lambda: check_reply(signed_reply(OTHER))) == "untrusted-key"


def test_a_signature_of_one_kind_is_none_of_another() -> None:
    reply = signed_reply()
    as_request = ExecutionRequest("r1", "f1", b"", 0, reply.metadata)
    assert reason(lambda: check_request(as_request)) == "bad-signature"
    as_reply = replace(reply, metadata=signed_request().metadata)
    assert reason(lambda: check_reply(as_reply)) == "bad-signature"


def test_a_stranger_s_signature_is_refused_with_what_to_do() -> None:
    with pytest.raises(Unauthorized, match=r"enginehost databus trust KEY --name NAME") as caught:
        check_request(signed_request(STRANGER))
    assert caught.value.detail == {"reason": "untrusted-key"}
    assert STRANGER.id in caught.value.message


def test_a_key_that_is_claimed_has_to_sign() -> None:
    """A stranger puts the id of a trusted key into what it signs itself."""
    body = json.dumps({"from": "requester", "seq": 1, "key": KEY.id}).encode()
    parts = (b"host", b"start", b"r1", b"f1", b'{"a":1}', b"5", body)
    forged = replace(REQUEST_GIVEN, metadata=seal(body, STRANGER, (REQUEST, *parts)))
    assert reason(lambda: check_request(forged)) == "bad-signature"


@pytest.mark.parametrize(
    "key", [None, 7, "", "x" * 32, "A" * 32, "0" * 31, ["0" * 32], "\x1b[31m" + "0" * 27]
)
def test_an_id_that_is_none_is_not_repeated_to_anybody(key: Any) -> None:
    body = json.dumps({"key": key}).encode()
    with pytest.raises(Unauthorized) as caught:
        check_request(replace(REQUEST_GIVEN, metadata=seal(body, STRANGER, (REQUEST, body))))
    assert caught.value.detail == {"reason": "untrusted-key"}
    assert "\x1b" not in caught.value.message


def test_what_is_not_signed_is_told_how_to_sign() -> None:
    for metadata in (b"", b"{}", b'{"timeout":2}', b"\xff", signed_request().metadata + b" "):
        with pytest.raises(Unauthorized, match="is not signed") as caught:
            check_request(replace(REQUEST_GIVEN, metadata=metadata))
        assert caught.value.detail == {"reason": "unsigned"}
    assert reason(lambda: check_reply(REPLY_GIVEN)) == "unsigned"
    assert reason(lambda: check_capability(CAPABILITY_GIVEN)) == "unsigned"


def signed_by_hand(said: dict[str, Any]) -> ExecutionRequest:
    body = json.dumps(said | {"key": KEY.id}).encode()
    parts = (b"host", b"start", b"r1", b"f1", b'{"a":1}', b"5", body)
    return replace(REQUEST_GIVEN, metadata=seal(body, KEY, (REQUEST, *parts)))


@pytest.mark.parametrize("sender", [None, "", 5, "x" * 129, "é" * 65])
def test_a_signed_request_says_whose_it_is(sender: Any) -> None:
    with pytest.raises(InvalidRequest, match="`from`"):
        check_request(signed_by_hand({"from": sender, "seq": 1}))


@pytest.mark.parametrize("seq", [None, 0, -1, 1.0, True, "1", 2**63])
def test_a_signed_request_has_a_number(seq: Any) -> None:
    with pytest.raises(InvalidRequest, match="`seq`"):
        check_request(signed_by_hand({"from": "requester", "seq": seq}))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_bytes_that_are_no_text_are_signed_as_they_are(parameters: bytes, odd: bytes) -> None:
    """Members that are text here may hold bytes of a peer that are no UTF-8, as PEP 383 escapes them."""
    text = odd.decode(errors="surrogateescape")
    request = ExecutionRequest(text, text, parameters, 5, b"")
    assert check_request(sign_request(request, KEY, HOST, sender="s", seq=2)).seq == 2
    reply = replace(REPLY_GIVEN, result=parameters, error_message=text, request_id=text)
    assert check_reply(sign_reply(reply, KEY, "requester"))
    capability = replace(CAPABILITY_GIVEN, name=text, description=text)
    assert check_capability(sign_capability(capability, KEY))
    if parameters:
        assert reason(lambda: check_reply(replace(sign_reply(reply, KEY, "requester"), result=b""))) == (
            "bad-signature"
        )


def test_text_that_nobody_can_send_is_refused_and_breaks_nothing() -> None:
    assert reason(lambda: check_request(replace(signed_request(), request_id="\ud800"))) == "bad-signature"


def test_a_classification_with_its_signature_fits_the_type_or_is_not_signed() -> None:
    def classification(size: int) -> str:
        return json.dumps({"x": "y" * (size - 8)}, separators=(",", ":"))

    fits = replace(CAPABILITY_GIVEN, classification=classification(2_048 - SEALED_BYTES))
    assert len(sign_capability(fits, KEY).classification) == 2_048
    longer = replace(fits, classification=classification(2_049 - SEALED_BYTES))
    with pytest.raises(ValueError, match="has 2049 of at most 2048 bytes"):
        sign_capability(longer, KEY)


def test_metadata_that_is_no_object_cannot_be_signed() -> None:
    with pytest.raises(TypeError):
        sign_reply(replace(REPLY_GIVEN, metadata=b"[]"), KEY, "requester")


def test_signing_again_replaces_the_signature() -> None:
    again = sign_request(signed_request(OTHER), KEY, HOST, sender="requester", seq=9)
    assert (check_request(again).by.id, check_request(again).seq) == (KEY.id, 9)
    assert again.metadata.count(b'"sig"') == again.metadata.count(b'"key"') == 1
