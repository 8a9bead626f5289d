"""Sessions over HTTP: ``/v1/sessions…``, and their events as server-sent events."""

from __future__ import annotations

from enginehost.serve.sessions.routes import session_routes

__all__ = ["session_routes"]
