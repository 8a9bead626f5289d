"""Model engines that come with the host."""

from __future__ import annotations

from enginehost_engines.models.engine import ScriptedModel as ScriptedModel

__all__ = ["ScriptedModel"]
