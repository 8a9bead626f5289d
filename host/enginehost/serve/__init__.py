"""The faces that listen on a socket: HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginehost.serve.app import make_app
    from enginehost.serve.server import HttpServer

__all__ = ["HttpServer", "make_app"]


def __getattr__(name: str) -> Any:
    """Load the server when it is first asked for: the command line uses ``serve.views`` alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from enginehost.serve import app, server

    return {"HttpServer": server.HttpServer, "make_app": app.make_app}[name]
