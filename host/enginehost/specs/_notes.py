"""What a face cannot say in its schema, said in its description: for the model, and to be read back.

A note is the last line of a description, ``(JSON Schema: {…})``, with the keywords left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_OPEN, _CLOSE = "(JSON Schema: ", ")"


def with_note(description: str, keywords: Mapping[str, Any], limit: int | None = None) -> str:
    """``description`` and a note of ``keywords``, together at most ``limit`` characters.

    A note longer than half of the limit is left out: the host checks the arguments anyway.
    """
    # A description that ends like a note gets an empty one, so that it is not taken for it later.
    note = _note(keywords) if keywords or split_note(description)[1] is not None else ""
    if limit is not None and len(note) > limit // 2:
        note = ""
    room = None if limit is None else limit - len(note) - bool(note)
    return "\n".join(part for part in (shortened(description, room), note) if part)


def shortened(text: str, limit: int | None) -> str:
    """``text``, cut to ``limit`` characters with an ellipsis where it is longer."""
    return text if limit is None or len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def split_note(description: str) -> tuple[str, dict[str, Any] | None]:
    """A description without its note, and the note's keywords (``None`` without a note)."""
    head, newline, last = description.rpartition("\n")
    if not (last.startswith(_OPEN) and last.endswith(_CLOSE)):
        return description, None
    try:
        keywords = json.loads(last[len(_OPEN) : -len(_CLOSE)])
    except ValueError:
        return description, None
    return (head if newline else "", keywords) if isinstance(keywords, dict) else (description, None)


def _note(keywords: Mapping[str, Any]) -> str:
    text = json.dumps(keywords, ensure_ascii=False, separators=(",", ":"))
    return f"{_OPEN}{text}{_CLOSE}"
