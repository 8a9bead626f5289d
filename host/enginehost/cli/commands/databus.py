"""``enginehost databus`` (see :mod:`enginehost.cli.databus`)."""

from __future__ import annotations

from enginehost.cli.databus import app

__all__ = ["app"]
