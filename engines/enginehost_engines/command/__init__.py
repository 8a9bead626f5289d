"""``ENGINE_CLASS = Command``: a program of this machine as a function, never through a shell."""

from __future__ import annotations

from enginehost_engines.command.config import CommandConfig
from enginehost_engines.command.engine import CommandEngine

__all__ = ["CommandConfig", "CommandEngine"]
