"""Where a redirect may lead: credentials go nowhere but to the host of the file."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urljoin, urlsplit

import httpx2

from enginehost_engines.rest.request import Message, redirected
from enginehost_engines.rest.url import DEFAULT_PORTS, Origin

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HARMLESS = frozenset({b"accept", b"accept-encoding", b"user-agent"})
"""Headers that another host may read."""


def following_of(
    message: Message, response: httpx2.Response, redirects: str, hosts: frozenset[str] = frozenset()
) -> Message | None:
    """The request that a redirect asks for, if it stays on the host or leads to one of ``hosts``."""
    location = response.headers.get("location")
    if response.status_code not in _REDIRECTS or not location:
        return None
    here = f"{message.origin.scheme}://{message.origin.authority}{message.target.decode()}"
    try:
        there = urlsplit(urljoin(here, location))
        port = there.port or DEFAULT_PORTS.get(there.scheme, 0)
    except ValueError:
        return None
    origin = Origin(there.scheme, there.hostname or "", port)
    target = (there.path or "/") + (f"?{there.query}" if there.query else "")
    any_method = redirects == "any-method"
    following = redirected(message, response.status_code, origin, target, any_method=any_method)
    if stays(message.origin, origin):
        return following
    allowed = origin.host in hosts and origin.scheme in ("https", message.origin.scheme)
    return _abroad(following) if allowed and following is not None else None


def _abroad(message: Message) -> Message | None:
    """The request as another host may read it; ``None`` where it would carry or change something."""
    if message.method not in ("GET", "HEAD") or message.body:
        return None
    kept = (header for header in message.headers if header[0].lower() in _HARMLESS)
    return replace(message, headers=((b"Host", message.origin.authority.encode()), *kept))


def stays(old: Origin, new: Origin) -> bool:
    """Whether ``new`` is the same origin, or its https in place of http, where both use their own ports."""
    safer = (old.scheme, old.port, new.scheme, new.port, new.host) == ("http", 80, "https", 443, old.host)
    return safer or old == new
