"""The docs page: a list of the functions and a form to try each. No foreign script."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
_FILES = {
    "/docs": ("docs.html", "text/html"),
    "/docs/docs.js": ("docs.js", "text/javascript"),
    "/docs/docs.css": ("docs.css", "text/css"),
}


def docs_routes() -> list[BaseRoute]:
    """The page, its script and its style sheet; ``/`` leads to it."""
    return [Route("/", _home), *(Route(path, _page) for path in _FILES)]


async def _home(request: Request) -> Response:
    return RedirectResponse("docs")


async def _page(request: Request) -> Response:
    name, media_type = _FILES[request.url.path]
    return Response(_content(name), headers=_HEADERS, media_type=media_type)


@cache
def _content(name: str) -> bytes:
    return (files("enginehost.serve") / "page" / name).read_bytes()
