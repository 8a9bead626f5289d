"""What a requester proves and wants proven: its own signature, and that of whom it asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from enginehost.databus.config import DatabusConfig
from enginehost.databus.directory import Signer
from enginehost.databus.keys import SigningKey, signing_key
from enginehost.databus.metadata import ReplyMetadata
from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest
from enginehost.databus.replicas import Provider
from enginehost.databus.signing import Audience, sign_request, verify_agent, verify_capability, verify_reply
from enginehost.databus.trust import Trust
from enginehost.errors import Unauthorized


class Proofs:
    """Signs requests where there is a key; looks at the signatures of what comes back.

    ``incarnation`` is this program's. A provider whose capability is signed has to sign its replies with the
    same key. ``accepts_any``: also functions that no trusted key signed are let in, without a name.
    """

    def __init__(
        self, incarnation: Callable[[], str], trust: Trust, key: SigningKey | None, *, accepts_any: bool
    ) -> None:
        self._incarnation = incarnation
        self._trust = trust
        self._key = key
        self._accepts_any = accepts_any

    def request(self, request: ExecutionRequest, provider: Provider) -> ExecutionRequest:
        """See :class:`~enginehost.databus.outgoing.Proof`."""
        if self._key is None or not provider.incarnation:
            return request
        provider.sent += 1
        audience = Audience(provider.host_id, provider.incarnation)
        return sign_request(request, self._key, audience, sender=self._incarnation(), seq=provider.sent)

    def reply(self, reply: ExecutionReply, provider: Provider) -> None:
        """See :class:`~enginehost.databus.outgoing.Proof`."""
        if not provider.key:
            return
        verified = verify_reply(reply, self._incarnation(), self._trust.find, signer=provider.key)
        if self._key is not None and ReplyMetadata.read(verified.body).to != self._key.id:
            # somebody has asked the provider in our name, without our signature
            message = "the reply answers a request that this host did not sign"
            raise Unauthorized(message, detail={"reason": "bad-signature"})

    def capability(self, capability: Capability) -> Signer:
        """Whose it is. Raises :class:`Unauthorized` for what is not let in, and for a wrong signature.

        One that is signed with a key that is not trusted here counts as unsigned.
        """
        try:
            by = verify_capability(capability, self._trust.find).by
        except Unauthorized as reason:
            if self._accepts_any and reason.detail.get("reason") in ("unsigned", "untrusted-key"):
                return Signer()
            raise
        if not by.offers(capability.service_name):
            message = f"the key of {by.caller.subject} may not offer functions of this service"
            raise Unauthorized(message, detail={"reason": "untrusted-key"})
        return Signer(by.caller.subject, by.id)

    def agent(self, values: Mapping[str, Any], provider: Provider) -> None:
        """Raise :class:`Unauthorized` where an agent's sample is not of the host that signs its function."""
        if provider.key and verify_agent(values, self._trust.find).by.id != provider.key:
            message = "its sample is signed by another key than the capability of its function"
            raise Unauthorized(message, detail={"reason": "untrusted-key"})


def proofs_of(config: DatabusConfig, incarnation: Callable[[], str]) -> Proofs:
    """What a config asks for; reads files. Raises :class:`ConfigError` where one is wrong."""
    return Proofs(incarnation, Trust(config.trust_path), signing_key(config), accepts_any=config.accepts_any)
