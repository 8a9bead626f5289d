"""The stream of a log, which may fail: its reader goes away, its disk fills up.

That must neither end the host nor go unnoticed: what is lost is counted, and no line is torn.
"""

from __future__ import annotations

import errno
import io
import os
import select
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

_PATIENCE_MS = 200
"""How long a reader that is slow may keep a non-blocking stream full."""


class Unwritten(OSError):
    """Texts could not be written now. ``lost`` of them never will be; the others follow later."""

    def __init__(self, error: OSError, lost: int) -> None:
        super().__init__(error.errno, error.strerror or str(error))
        self.lost = lost


class LogStream(io.TextIOBase):
    """Writes whole texts of one or more lines on ``stream``, from any thread.

    What is half written when the stream fails is completed first when it works again.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = _descriptor(stream)
        self._writing = threading.Lock()
        self._rest = b""
        """The end of a text that is half written."""

    @classmethod
    def of(cls, stream: TextIO) -> LogStream:
        """``stream`` itself where it is one."""
        return stream if isinstance(stream, LogStream) else cls(stream)

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the stream."""
        return self._stream.encoding or "utf-8"

    def isatty(self) -> bool:
        """Whether a person looks at it."""
        return self._stream.isatty()

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str, /) -> int:
        """Write ``text``, if that is possible."""
        with suppress(Unwritten):
            self.put((text,))
        return len(text)

    def put(self, texts: Sequence[str]) -> None:
        """Write ``texts``. Raises :class:`Unwritten`, which says how many of them are lost."""
        encoded = [text.encode(self.encoding, "backslashreplace") for text in texts]
        with self._writing:
            if self._descriptor is None:
                self._put_plainly(encoded)
            else:
                self._put(self._descriptor, encoded)

    def _put(self, descriptor: int, texts: Sequence[bytes]) -> None:
        begun = bool(self._rest)
        texts = [self._rest, *texts] if begun else texts
        data, done = memoryview(b"".join(texts)), 0
        try:
            if self._stream.closed:
                raise OSError(errno.EBADF, "the stream is closed")
            self._stream.flush()  # what others have written there
            while done < len(data):
                done += _write(descriptor, data[done:])
        except OSError as error:
            self._rest, lost = _left(texts, done, begun=begun)
            raise Unwritten(error, lost) from error
        self._rest = b""

    def _put_plainly(self, texts: Sequence[bytes]) -> None:
        """On a stream that has no descriptor, so that nobody knows how much it took."""
        text = (self._rest + b"".join(texts)).decode(self.encoding)
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError) as error:  # ValueError: it is closed
            self._rest = b"\n"
            known = error if isinstance(error, OSError) else OSError(errno.EBADF, str(error))
            raise Unwritten(known, len(texts)) from error
        self._rest = b""


def _write(descriptor: int, data: memoryview) -> int:
    try:
        return os.write(descriptor, data)
    except BlockingIOError:  # whoever shares it has made it non-blocking
        waiting = select.poll()
        waiting.register(descriptor, select.POLLOUT)
        if not waiting.poll(_PATIENCE_MS):
            raise
        return os.write(descriptor, data)


def _left(texts: Sequence[bytes], done: int, *, begun: bool) -> tuple[bytes, int]:
    """What is missing of the text that is half written, and how many behind it are not written at all.

    ``done`` bytes were written; ``begun``: a part of the first text had been written before.
    """
    for place, text in enumerate(texts):
        if done >= len(text):
            done -= len(text)
        elif done or (begun and place == 0):
            return text[done:], len(texts) - place - 1
        else:
            return b"", len(texts) - place
    return b"", 0


def _descriptor(stream: TextIO) -> int | None:
    """The descriptor behind a stream that writes bytes as they are."""
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(stream.buffer, io.BufferedWriter):
        return None
    raw = stream.buffer.raw
    return raw.fileno() if isinstance(raw, io.FileIO) else None
