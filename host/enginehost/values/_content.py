"""Results of several kinds at once, as MCP's clients show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class McpContent:
    """Blocks of content, each a text, bytes (a picture, a sound, a file), or a block as MCP writes it.

    ``{"type": "text", "text": …}``, ``image`` and ``audio`` (``data``, ``mimeType``), ``resource``
    (``resource``: ``uri``, ``mimeType``, ``text`` or ``blob``), ``resource_link``. ``data`` and ``blob``
    may be bytes. As JSON it is ``{"mcp_content": […]}``, which a script may give as well.
    """

    mcp_content: Sequence[str | bytes | Mapping[str, Any]]
