"""The protocol, whatever carries it: a request in, its result out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginehost.call import LOG_LEVELS
from enginehost.serve.mcp.asking import Asking
from enginehost.serve.mcp.changes import News
from enginehost.serve.mcp.completion import completed
from enginehost.serve.mcp.handshake import MOST_SUBSCRIPTIONS, Handshake
from enginehost.serve.mcp.messages import Request
from enginehost.serve.mcp.peer import Peer
from enginehost.serve.mcp.prompts import Prompts
from enginehost.serve.mcp.resources import Resources, uri_in
from enginehost.serve.mcp.seal import Seal
from enginehost.serve.mcp.tools import FRESH_MS, Tools
from enginehost.serve.mcp.wire import (
    HANDSHAKE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN,
    Fault,
    server_info,
    stamped,
)
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host

LISTEN = "subscriptions/listen"
"""Answered with messages, not with one: see :func:`~enginehost.serve.mcp.changes.listening`."""

_LISTED = {"listChanged": True}
_CAPABILITIES = {
    "tools": _LISTED,
    "prompts": _LISTED,
    "resources": {**_LISTED, "subscribe": True},
    "completions": {},
    "logging": {},
}
_INSTRUCTIONS = (
    "The functions of an enginehost. A tool whose hints say that it destroys something does so when it is"
    " called."
)


class McpFace:
    """The tools, prompts and resources of a host. Lives on one event loop."""

    def __init__(self, host: Host) -> None:
        self.seal = Seal(host)
        asking = Asking(self.seal)
        self.tools = Tools(host, asking)
        self.prompts = Prompts(host, asking)
        self.resources = Resources(host, asking)
        self.news = News(host, self.resources)

    async def result(self, peer: Peer, request: Request) -> bytes:
        """The result of a request, as JSON.

        Raises :class:`Fault` and the host's errors (:mod:`enginehost.errors`).
        """
        if request.method == "tools/call":
            found = await self.tools.call(peer, request)
        elif request.method == "tools/list":
            found = self.tools.list(peer, request.params)
        else:
            found = await self._other(peer, request)
        return stamped(found) if peer.modern else found

    async def _other(self, peer: Peer, request: Request) -> bytes:
        params = request.params
        match request.method:
            case "prompts/list":
                return self.prompts.list(peer, params)
            case "prompts/get":
                return await self.prompts.get(peer, request)
            case "resources/list":
                return await self.resources.list(peer, params)
            case "resources/templates/list":
                return self.resources.templates(peer, params)
            case "resources/read":
                return await self.resources.read(peer, request)
            case "completion/complete":
                return completed(self.prompts, self.resources, peer, params)
            case "server/discover" if peer.modern:
                return _discovered()
            case method if not peer.modern:
                return await self._old(peer, request, method)
            case method:
                raise _no_method(method)

    async def _old(self, peer: Peer, request: Request, method: str) -> bytes:
        """What only the revisions with a handshake have."""
        match method:
            case "ping":
                return b"{}"
            case "initialize":
                return initialized(peer, request)
            case "logging/setLevel":
                level: Any = request.params.get("level")
                if level not in LOG_LEVELS:
                    raise Fault(INVALID_PARAMS, f"level must be one of {', '.join(LOG_LEVELS)}")
                if peer.handshake is not None:
                    peer.handshake.level = level
                return b"{}"
            case "resources/subscribe":
                uri = uri_in(request.params)
                await self.resources.check(peer, uri)
                if not _session(peer).subscribe(uri):
                    raise Fault(INVALID_REQUEST, f"at most {MOST_SUBSCRIPTIONS} resources may be followed")
                return b"{}"
            case "resources/unsubscribe":
                _session(peer).unsubscribe(uri_in(request.params))
                return b"{}"
            case _:
                raise _no_method(method)


def initialized(peer: Peer, request: Request) -> bytes:
    """Agree on a revision: the client's, where it is spoken here, else the newest with a handshake."""
    wanted: Any = request.params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise Fault(INVALID_PARAMS, "protocolVersion must be a text")
    peer.version = wanted if wanted in HANDSHAKE else HANDSHAKE[0]
    said: Any = request.params.get("capabilities")
    peer.capabilities = said if isinstance(said, dict) else {}
    return write(
        {
            "protocolVersion": peer.version,
            "capabilities": _CAPABILITIES,
            "serverInfo": server_info(),
            "instructions": _INSTRUCTIONS,
        }
    )


def _discovered() -> bytes:
    return write(
        {
            "supportedVersions": [MODERN, *HANDSHAKE],
            "capabilities": _CAPABILITIES,
            "instructions": _INSTRUCTIONS,
            "ttlMs": FRESH_MS,
            "cacheScope": "public",
        }
    )


def _session(peer: Peer) -> Handshake:
    if peer.handshake is None:
        raise Fault(INVALID_REQUEST, "only a client with a session can follow resources")
    return peer.handshake


def _no_method(method: str) -> Fault:
    return Fault(METHOD_NOT_FOUND, f"there is no method {method[:100]!r}")
