"""``ENGINE_CLASS = MCP``: the tools of a remote MCP server as functions.

The official SDK's client speaks the protocol. It is an optional extra (``enginehost[mcp]``), loaded when the
first engine of this kind opens.
"""

from __future__ import annotations

from enginehost_engines.mcp.config import McpConfig
from enginehost_engines.mcp.engine import McpEngine

__all__ = ["McpConfig", "McpEngine"]
