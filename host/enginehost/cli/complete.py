"""Completion of function names: read from the files as text, since a person waits at each key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_NAME = re.compile(rb"(?im)^[ \t\f]*FUNCTION_NAME[ \t\f]*[=: \t\f][ \t\f]*([^\r\n]+)$")
_MOST_FILES = 2_000
_MOST_BYTES = 65_536


def function_names(ctx: Any, incomplete: str) -> list[str]:
    """The names in the folder that begin with ``incomplete``; none while a running host is meant."""
    if ctx.params.get("url"):
        return []
    return sorted(
        name
        for name in set(_declared(Path(ctx.params.get("folder") or "smss")))
        if name.startswith(incomplete)
    )


def _declared(folder: Path) -> Iterator[str]:
    from enginehost.folder import look

    for _, path in zip(range(_MOST_FILES), look(folder).files, strict=False):
        try:
            with path.open("rb") as file:
                found = _NAME.search(file.read(_MOST_BYTES))
        except OSError:
            continue
        if found:
            yield found[1].decode("utf-8", "replace").strip()
