"""The settings of MCP."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from enginehost.checked_model import Section


class McpSettings(Section):
    """The MCP face."""

    shorthand: ClassVar[str] = "enabled"
    enabled: bool = Field(default=True, description="Whether /mcp is served where HTTP is.")
    smss_files: bool = Field(
        default=False,
        description="Whether clients may read the smss files of the functions that they may view, with"
        " secrets masked, as resources.",
    )
    answer_seconds: float = Field(
        default=600,
        gt=0,
        le=86_400,
        description="Seconds a call waits for what its client was asked (up to revision 2025-11-25).",
    )
