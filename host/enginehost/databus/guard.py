"""Who signed a request, and this host's own signature: one place that knows key, trust and replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from enginehost.caller import Caller
from enginehost.databus.config import DatabusConfig
from enginehost.databus.identity import Identity
from enginehost.databus.keys import SigningKey, signing_key
from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest
from enginehost.databus.replays import Replays
from enginehost.databus.signing import (
    Audience,
    VerifiedRequest,
    sign_agent,
    sign_capability,
    sign_reply,
    verify_request,
)
from enginehost.databus.trust import Trust


class Guard:
    """Verifies requests for one host and signs what it says. ``key``: ``None`` where it signs nothing."""

    def __init__(self, identity: Identity, trust: Trust, key: SigningKey | None) -> None:
        self._identity = identity
        self._trust = trust
        self._key = key
        self._replays = Replays()

    @property
    def signs(self) -> bool:
        """Whether replies and capabilities are signed."""
        return self._key is not None

    def callers(self) -> Sequence[Caller]:
        """Who calls with the keys that are trusted now."""
        return [key.caller for key in self._trust.keys()]  # noqa: SIM118 - no mapping

    def verify(self, request: ExecutionRequest) -> VerifiedRequest:
        """Who signed a request for this host, on any thread. Raises :class:`Unauthorized`.

        It may have been sent before: that is for :meth:`admit` to say.
        """
        audience = Audience(self._identity.host_id, self._identity.incarnation)
        return verify_request(request, audience, self._trust.find)

    def admit(self, verified: VerifiedRequest) -> None:
        """Take a verified request, once: a second time it is refused as a replay."""
        self._replays.admit(verified.by.id, verified.sender, verified.seq)

    def sign_reply(self, reply: ExecutionReply, requester: str) -> ExecutionReply:
        """The reply, signed for the ``requester`` (an incarnation) where this host signs."""
        return reply if self._key is None else sign_reply(reply, self._key, requester)

    def sign_agent(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """An agent's sample, signed where this host signs."""
        return values if self._key is None else sign_agent(values, self._key)

    def sign_capability(self, capability: Capability) -> Capability:
        """The capability, signed where this host signs."""
        return capability if self._key is None else sign_capability(capability, self._key)


def guard_of(config: DatabusConfig, identity: Identity) -> Guard:
    """The guard that a config asks for; reads files. Raises :class:`ConfigError` where one is wrong."""
    return Guard(identity, Trust(config.trust_path), signing_key(config))
