"""What to say of a file that a key names and that cannot be used."""

from __future__ import annotations

import os


def no_file(shown: str, path: str | os.PathLike[str]) -> str:
    """Why ``path``, which is no regular file and which its author wrote as ``shown``, is of no use."""
    if os.path.isdir(path):  # noqa: PTH112 - Path's raises where it may not look
        return f"{shown} is a folder, no file"
    if os.path.exists(path):  # noqa: PTH110
        return f"{shown} is no regular file"
    return f"there is no file {shown}"
