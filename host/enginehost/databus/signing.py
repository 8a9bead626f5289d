"""Signatures of requests, replies and capabilities (Ed25519), which stand in their metadata.

A signed text is a JSON object whose last member is the signature, always written so::

    {…,"key":"<id of the key>","sig":"<88 characters of base64>"}

Its *body* is what stands before ``,"sig"`` with ``}`` behind it, byte by byte: nobody has to write JSON as
anybody else does. Signed is a label that says what the message is, then all that must not be changed, the
body among it, each part behind its length (8 bytes, big-endian); whole numbers are decimal text.

What comes from others is refused with :class:`Unauthorized`, whose ``detail["reason"]`` is ``unsigned``,
``untrusted-key`` or ``bad-signature`` (``replayed`` comes from :mod:`~enginehost.databus.replays`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from enginehost.databus.keys import KEYGEN, SigningKey, is_key_id, verifier
from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest
from enginehost.databus.trust import TrustedKey
from enginehost.databus.types import AGENT_CAPABILITY, FUNCTION_CAPABILITY, ID_BOUND
from enginehost.errors import InvalidRequest, Unauthorized
from enginehost.values import MalformedJson, decode, encode

REQUEST = b"enginehost request 1"
REPLY = b"enginehost reply 1"
CAPABILITY = b"enginehost capability 1"
AGENT = b"enginehost agent 1"

_HEAD, _TAIL = b',"sig":"', b'"}'
_SIGNATURE_BYTES, _SIGNATURE_TEXT = 64, 88
_SUFFIX = len(_HEAD) + _SIGNATURE_TEXT + len(_TAIL)
_MOST_SEQ = 2**63 - 1

SEALED_BYTES = len(f',"key":"{"0" * 32}"') + _SUFFIX - len("}")
"""By how much a signature makes metadata longer that has other members."""

_CAPABILITY_MEMBERS = tuple(one.name for one in fields(Capability))

FindKey = Callable[[str], TrustedKey | None]
"""The trusted key with an id: :meth:`Trust.find <enginehost.databus.trust.Trust.find>`."""


@dataclass(frozen=True, slots=True)
class Audience:
    """The host that a request is for, as it was started: no other takes it for its own."""

    host_id: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What a good signature proves: ``body`` is metadata that the owner of the key ``by`` wrote."""

    by: TrustedKey
    body: bytes


@dataclass(frozen=True, slots=True)
class VerifiedRequest(Verified):
    """Likewise; ``sender`` is the requester's incarnation and ``seq`` its number of this request."""

    sender: str
    seq: int


def seal(body: bytes, key: SigningKey, context: Sequence[bytes]) -> bytes:
    """``body`` (a JSON object that is not empty, without blanks behind it) with its signature.

    ``context`` is what is signed: the label, then all parts in their order, the body among them.
    """
    signature = base64.b64encode(key.sign(_message(context)))
    return b"".join((body[:-1], _HEAD, signature, _TAIL))


def unseal(metadata: bytes) -> tuple[bytes, bytes] | None:
    """The body and the signature of a signed text; ``None`` where it has none in the one right form.

    In valid JSON the form can only be the last member of the outermost object: the quote behind the comma
    is not escaped, and were it the end of a string, ``sig`` could not follow.
    """
    start = len(metadata) - _SUFFIX
    text = metadata[start + len(_HEAD) : -len(_TAIL)]
    if start < 1 or metadata[start : start + len(_HEAD)] != _HEAD or not metadata.endswith(_TAIL):
        return None
    try:
        signature = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    if len(signature) != _SIGNATURE_BYTES or base64.b64encode(signature) != text:
        return None
    return metadata[:start] + b"}", signature


def sign_request(
    request: ExecutionRequest, key: SigningKey, audience: Audience, *, sender: str, seq: int
) -> ExecutionRequest:
    """The request, signed for ``audience``.

    ``sender`` is the requester's incarnation, ``seq`` its number of this request to this audience: 1 for the
    first that it signs, and one more for each.
    """
    body = _body(request.metadata, key, {"from": sender, "seq": seq})
    return replace(request, metadata=seal(body, key, _request_parts(request, audience, body)))


def verify_request(request: ExecutionRequest, audience: Audience, find: FindKey) -> VerifiedRequest:
    """Who signed the request for ``audience``. Raises :class:`Unauthorized`.

    Whether it is a replay, only :meth:`Replays.admit <enginehost.databus.replays.Replays.admit>` knows.
    Raises :class:`InvalidRequest` where the signature is good and ``from`` or ``seq`` is missing.
    """
    verified, said = _verify(
        request.metadata, lambda body: _request_parts(request, audience, body), find, "request"
    )
    sender, seq = said.get("from"), said.get("seq")
    if not isinstance(sender, str) or not 0 < len(_octets(sender)) <= ID_BOUND:
        raise InvalidRequest("a signed request has `from`, the requester's incarnation, in its metadata")
    if type(seq) is not int or not 0 < seq <= _MOST_SEQ:
        raise InvalidRequest("a signed request has `seq`, its number from 1, in its metadata")
    return VerifiedRequest(verified.by, verified.body, sender, seq)


def sign_reply(reply: ExecutionReply, key: SigningKey, requester: str) -> ExecutionReply:
    """The reply, signed for the incarnation of the ``requester``."""
    body = _body(reply.metadata, key, {})
    return replace(reply, metadata=seal(body, key, _reply_parts(reply, requester, body)))


def verify_reply(reply: ExecutionReply, requester: str, find: FindKey, *, signer: str) -> Verified:
    """Check the signature of a reply to ``requester``. Raises :class:`Unauthorized`.

    ``signer`` is the id of the key that signed the function's capability: a host that is trusted too may
    not answer in its place.
    """
    verified, _ = _verify(reply.metadata, lambda body: _reply_parts(reply, requester, body), find, "reply")
    if verified.by.id != signer:
        message = "the reply is signed by another key than the capability of its function"
        raise Unauthorized(message, detail={"reason": "untrusted-key"})
    return verified


def sign_capability(capability: Capability, key: SigningKey) -> Capability:
    """The capability, signed. Raises :class:`ValueError` where its ``classification`` has no room for that.

    It takes :data:`SEALED_BYTES`.
    """
    body = _body(capability.classification.encode(), key, {})
    sealed = seal(body, key, _capability_parts(capability, body))
    if len(sealed) > (bound := FUNCTION_CAPABILITY.bound("classification")):
        raise ValueError(f"its classification with its signature has {len(sealed)} of at most {bound} bytes")
    return replace(capability, classification=sealed.decode())


def verify_capability(capability: Capability, find: FindKey) -> Verified:
    """Who signed the capability. Raises :class:`Unauthorized`."""
    sealed = _octets(capability.classification)
    return _verify(sealed, lambda body: _capability_parts(capability, body), find, "capability")[0]


def sign_agent(values: Mapping[str, Any], key: SigningKey) -> dict[str, Any]:
    """An agent's sample (``AGENT_CAPABILITY`` by member), signed.

    Raises :class:`ValueError` where its ``model_info`` has no room for that; it takes :data:`SEALED_BYTES`.
    """
    body = _body(str(values["model_info"]).encode(), key, {})
    sealed = seal(body, key, _agent_parts(values, body))
    if len(sealed) > (bound := AGENT_CAPABILITY.bound("model_info")):
        raise ValueError(f"its model_info with its signature has {len(sealed)} of at most {bound} bytes")
    return {**values, "model_info": sealed.decode()}


def verify_agent(values: Mapping[str, Any], find: FindKey) -> Verified:
    """Who signed an agent's sample. Raises :class:`Unauthorized`."""
    sealed = _octets(values["model_info"])
    return _verify(sealed, lambda body: _agent_parts(values, body), find, "agent's sample")[0]


def _request_parts(request: ExecutionRequest, audience: Audience, body: bytes) -> tuple[bytes, ...]:
    return (
        REQUEST,
        _octets(audience.host_id),
        _octets(audience.incarnation),
        _octets(request.request_id),
        _octets(request.function_id),
        request.parameters,
        _octets(request.timestamp),
        body,
    )


def _reply_parts(reply: ExecutionReply, requester: str, body: bytes) -> tuple[bytes, ...]:
    return (
        REPLY,
        _octets(requester),
        _octets(reply.request_id),
        _octets(reply.function_id),
        reply.result,
        _octets(reply.status),
        _octets(reply.error_message),
        _octets(reply.timestamp),
        body,
    )


def _capability_parts(capability: Capability, body: bytes) -> tuple[bytes, ...]:
    members = (
        body if name == "classification" else _octets(getattr(capability, name))
        for name in _CAPABILITY_MEMBERS
    )
    return (CAPABILITY, *members)


def _agent_parts(values: Mapping[str, Any], body: bytes) -> tuple[bytes, ...]:
    members = (
        body if member.name == "model_info" else _octets(values[member.name])
        for member in AGENT_CAPABILITY.members
    )
    return (AGENT, *members)


def _octets(value: str | int) -> bytes:
    """A member as it goes over the wire; text that was no UTF-8 as the bytes that came (PEP 383)."""
    text = value if isinstance(value, str) else str(int(value))
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # lone surrogates that are no bytes: nothing that is signed has them
        return text.encode(errors="surrogatepass")


def _message(context: Sequence[bytes]) -> bytes:
    label, *parts = context
    return b"".join((label, *(one for part in parts for one in (len(part).to_bytes(8, "big"), part))))


def _body(metadata: bytes, key: SigningKey, more: dict[str, Any]) -> bytes:
    """The metadata with what a signed one has to say."""
    said = decode(metadata) if metadata else {}
    if not isinstance(said, dict):
        raise TypeError("metadata that is to be signed has to be a JSON object")
    return encode({name: one for name, one in said.items() if name != "sig"} | more | {"key": key.id})


def _verify(
    metadata: bytes, parts: Callable[[bytes], Sequence[bytes]], find: FindKey, what: str
) -> tuple[Verified, dict[str, Any]]:
    from cryptography.exceptions import InvalidSignature

    found = unseal(metadata)
    if found is None:
        message = f"the {what} is not signed, or its metadata does not end with the signature"
        raise Unauthorized(f"{message}; {_LET_IN}", detail={"reason": "unsigned"})
    body, signature = found
    said = _object(body)
    by = _trusted(said.get("key"), find, what)
    try:
        verifier(by.public).verify(signature, _message(parts(body)))
    except InvalidSignature:
        message = (
            f"the signature of the {what} does not hold: it was changed on its way, or is for another host"
        )
        raise Unauthorized(
            f"{message}, or for one that was restarted", detail={"reason": "bad-signature"}
        ) from None
    return Verified(by, body), said


_LET_IN = (
    f"sign with a key ({KEYGEN}) that `enginehost databus trust` made known on the machine that checks it"
)


def _object(body: bytes) -> dict[str, Any]:
    try:
        said = decode(body)
    except MalformedJson:
        return {}
    return said if isinstance(said, dict) else {}


def _trusted(id: Any, find: FindKey, what: str) -> TrustedKey:
    if not isinstance(id, str) or not is_key_id(id):
        message = f"the {what} does not say which key signed it (`key` in its metadata)"
        raise Unauthorized(message, detail={"reason": "untrusted-key"})
    found = find(id)
    if found is None:
        raise Unauthorized(
            f"the key {id} that signed the {what} is not trusted here; on the machine that checks it:"
            " `enginehost databus trust KEY --name NAME`; `enginehost databus keygen --show` prints KEY"
            " on the signer's",
            detail={"reason": "untrusted-key"},
        )
    return found
