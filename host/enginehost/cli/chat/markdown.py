"""Markdown that arrives in pieces: which of it is finished, and text that steers no terminal."""

from __future__ import annotations

_FENCES = ("```", "~~~")


def finished(text: str) -> tuple[str, str]:
    """The blocks that are whole, which end with a blank line outside a fence, and the rest."""
    fence, end, at = "", 0, 0
    for line in text.splitlines(keepends=True):
        at += len(line)
        mark = line.strip()[:3]
        if mark in _FENCES and fence in ("", mark):
            fence = "" if fence else mark
        elif not fence and not line.strip() and line.endswith("\n"):
            end = at
    return text[:end], text[end:]


def harmless(text: str) -> str:
    """The text with line ends as they are, and without what would steer a terminal."""
    from enginehost.cli.output import laid_out

    return laid_out(text.replace("\r\n", "\n").replace("\t", "    "))
