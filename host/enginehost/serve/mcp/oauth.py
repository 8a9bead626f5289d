"""Where clients learn who gives out tokens (RFC 9728), and how they are told to bring one (RFC 6750)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from enginehost.errors import Forbidden
from enginehost.serve.problem import HttpRefusal

if TYPE_CHECKING:
    from enginehost.host import Host
    from enginehost.serve.request import Headers

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"


def metadata_routes(host: Host) -> list[BaseRoute]:
    """The document, for the host as a whole and for ``/mcp``."""

    async def metadata(request: Request) -> Response:
        if not host.settings.authenticates:
            raise HttpRefusal(404, "this host asks for no tokens")
        issuers = [issuer.issuer for issuer in host.settings.oidc]
        document: dict[str, Any] = {
            "resource": f"{request.url.scheme}://{request.url.netloc}{PATH}",
            "bearer_methods_supported": ["header"],
            "resource_name": "enginehost",
        }
        if issuers:
            document["authorization_servers"] = issuers
        return JSONResponse(document, headers={"Cache-Control": "max-age=300"})

    return [Route(METADATA, metadata), Route(METADATA + PATH, metadata)]


def challenge(host: Host, scheme: str, headers: Headers, *, error: str = "") -> str:
    """The ``WWW-Authenticate`` of a refusal, with where the document is."""
    parts = ['Bearer realm="enginehost"']
    if error:
        parts.append(f'error="{error}"')
    if host.settings.authenticates and (place := headers.get(b"host")) is not None:
        parts.append(f'resource_metadata="{scheme}://{place.decode("latin-1")}{METADATA}{PATH}"')
    return ", ".join(parts)


def invalid_token(host: Host, scope: Scope, headers: Headers) -> str:
    """What one is told whose token does not hold."""
    return challenge(host, scope["scheme"], headers, error="invalid_token")


def scope_refusal(host: Host, scheme: str, headers: Headers, error: Forbidden) -> HttpRefusal:
    """The refusal of one who is known and lacks rights that a better token may give."""
    told = challenge(host, scheme, headers, error="insufficient_scope")
    return HttpRefusal(403, error.message, {"WWW-Authenticate": told})
