"""OpenAPI documents: each operation as a function.

``enginehost import openapi`` writes a smss file for each, to read and edit; ``ENGINE_CLASS = OpenAPI`` serves
them as the document says at the moment. Both have the REST engine make the requests.
"""

from __future__ import annotations

from enginehost_engines.openapi.engine import OpenApiEngine

__all__ = ["OpenApiEngine"]
