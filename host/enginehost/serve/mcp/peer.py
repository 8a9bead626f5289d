"""Who speaks, in which revision, and how they are told and asked something in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from enginehost.caller import Caller
from enginehost.questions import METHODS
from enginehost.serve.mcp.handshake import Handshake
from enginehost.serve.mcp.wire import MODERN

Notify = Callable[[bytes], Awaitable[None]]
"""Sends a notification that belongs to a request."""
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Asks the client (a method and its parameters) while a request of theirs runs; gives the result."""
_NOTHING: frozenset[str] = frozenset()


@dataclass(slots=True)
class Peer:
    """The other side of a request. ``tags``: only functions with one of them are its tools; none: all.

    ``capabilities`` are the client's; ``notify`` is missing where nothing can be sent before the answer, and
    ``ask`` where nothing can be asked, or not in this way. ``level`` is from which on it wants to read what
    functions say; empty: nothing. ``handshake`` is missing in the revision without one.
    ``headers`` are those of HTTP where they have to agree with the body.
    """

    caller: Caller
    version: str
    tags: frozenset[str] = frozenset()
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    authorization: str = ""
    notify: Notify | None = None
    ask: Ask | None = None
    level: str = ""
    handshake: Handshake | None = None
    headers: Mapping[bytes, bytes] | None = None

    @property
    def modern(self) -> bool:
        """Whether it speaks the revision without a handshake."""
        return self.version == MODERN

    @property
    def asks(self) -> frozenset[str]:
        """Which kinds of question it can answer."""
        capabilities = self.capabilities
        return frozenset(kind for kind in METHODS if kind in capabilities) if capabilities else _NOTHING
