"""What a model is shown of a result: text, and what is no text beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from enginehost.values import encode, to_json

_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
UNKNOWN = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes in a result; ``media_type`` is guessed by how they begin."""

    name: str
    data: bytes
    media_type: str

    @property
    def is_image(self) -> bool:
        """Whether it is a picture."""
        return self.media_type.startswith("image/")

    @property
    def readable(self) -> bool:
        """Whether models are known to take it."""
        return self.media_type != UNKNOWN


@dataclass(frozen=True, slots=True)
class Shown:
    """A result as a model reads it: ``text``, the same as JSON (``plain``), and its ``blobs``.

    In both, a blob is a text that names it. ``value`` is the result itself, for the program.
    """

    value: Any
    plain: Any
    text: str
    blobs: tuple[Blob, ...] = ()


def shown(value: Any, *, streaming: bool = False) -> Shown:
    """What a model is shown of ``value``. The texts of a stream are joined to one.

    Raises :class:`~enginehost.values.NotJson` for what no face could carry.
    """
    if streaming and isinstance(value, list):
        items = cast("list[Any]", value)
        if items and all(isinstance(item, str) for item in items):
            value = "".join(items)
    blobs: list[Blob] = []
    plain = _without_blobs(to_json(_taken_out(value, blobs)))
    text = plain if isinstance(plain, str) else encode(plain).decode()
    return Shown(value, plain, text, tuple(blobs))


def _taken_out(value: Any, blobs: list[Blob]) -> Any:
    """``value`` with a text in place of all bytes in lists, tuples and dicts."""
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        blobs.append(Blob(f"file {len(blobs) + 1}", data, media_type_of(data)))
        return f"[{blobs[-1].name}: {blobs[-1].media_type}, {len(data)} bytes]"
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [_taken_out(item, blobs) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _taken_out(item, blobs) for key, item in cast("dict[Any, Any]", value).items()}
    return value


def _without_blobs(plain: Any) -> Any:
    """JSON without the marker of bytes that stood in a dataclass or the like: its text would be of no use."""
    if isinstance(plain, list):
        return [_without_blobs(item) for item in cast("list[Any]", plain)]
    if not isinstance(plain, dict):
        return plain
    found = cast("dict[str, Any]", plain)
    if found.keys() == {"$bytes"} and isinstance(found["$bytes"], str):
        return f"[{len(found['$bytes']) * 3 // 4} bytes]"
    return {key: _without_blobs(item) for key, item in found.items()}


def media_type_of(data: bytes) -> str:
    """The media type that some bytes begin as."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media for beginning, media in _BEGINNINGS if data.startswith(beginning)), UNKNOWN)
