"""Agents over HTTP, those of this host and those of others: ``/v1/agents…``."""

from __future__ import annotations

from enginehost.serve.agents.routes import agent_routes

__all__ = ["agent_routes"]
