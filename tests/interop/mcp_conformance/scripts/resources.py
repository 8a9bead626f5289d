"""The resources that the suite reads."""

from __future__ import annotations

import base64

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


def static_binary() -> bytes:
    """A picture."""
    return PNG


def template_data(id: str) -> dict:
    """The data of an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


def watched_resource() -> str:
    """A text that may be followed."""
    return "Watched resource content"
