"""REST engines: an HTTP endpoint as a function.

``REST`` answers with the whole answer, ``StreamRESTFunctionEngine`` item by item. The libraries that speak
HTTP are loaded at the first call.
"""

from __future__ import annotations

from enginehost_engines.rest.config import RestConfig
from enginehost_engines.rest.kinds import RestEngine, StreamRestEngine

__all__ = ["RestConfig", "RestEngine", "StreamRestEngine"]
