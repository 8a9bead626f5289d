"""The functions of a host as tools of MCP: over HTTP (``/mcp``) and over stdin and stdout."""

from enginehost.serve.mcp.http import McpHttp, mcp_routes
from enginehost.serve.mcp.oauth import invalid_token

__all__ = ["McpHttp", "invalid_token", "mcp_routes"]
