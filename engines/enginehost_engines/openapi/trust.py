"""To whom the credentials of a file may go: a document from elsewhere must not choose that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.errors import ConfigError
from enginehost_engines.openapi.documents import Documents, shown_url
from enginehost_engines.openapi.faults import Unmappable
from enginehost_engines.openapi.servers import server_of
from enginehost_engines.rest.url import Origin, parse

_TELLING = ("AUTH", "API_KEY", "HEADERS")


def trusted_origin(documents: Documents, base_url: str, common: Mapping[str, Any]) -> Origin | None:
    """Where credentials may go: to ``OPENAPI_BASE_URL``, else to the document's own first server.

    A document behind a URL could name any server, today or after its next change: where it names another
    host than its own, and there are credentials, :class:`ConfigError` asks for ``OPENAPI_BASE_URL``.
    """
    try:
        origin = parse(server_of(documents, [documents.root], base_url, []).url).origin
    except Unmappable:
        return None
    if documents.url and not base_url and has_credentials(common):
        home = parse(shown_url(documents.url)).origin
        if origin != home:
            server = f"{origin.scheme}://{origin.authority}"
            message = (
                f"the document of {home.authority} names the server {server}, to which no credentials go"
                " unless OPENAPI_BASE_URL names it"
            )
            raise ConfigError(message, reason="untrusted-server", key="OPENAPI_SPEC")
    return origin


def has_credentials(common: Mapping[str, Any]) -> bool:
    """Whether some of the keys may hold a secret."""
    return any(key.startswith(_TELLING) for key in common)


def harmless(common: Mapping[str, Any]) -> dict[str, Any]:
    """The keys without those that may hold a secret."""
    return {key: value for key, value in common.items() if not key.startswith(_TELLING)}
