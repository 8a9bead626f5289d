"""What a program printed, as the result of a call."""

from __future__ import annotations

from collections.abc import Iterator

from enginehost.errors import ExecutionFailed, TooLarge
from enginehost.values import MalformedJson, decode


def as_text(data: bytes, program: str) -> str:
    """Text without its last line break."""
    text = _decoded(data, program)
    return text.removesuffix("\n").removesuffix("\r")


def as_json(data: bytes, program: str) -> object:
    """The value. Raises :class:`ExecutionFailed`."""
    if not data.strip():
        raise _not_as_promised(f"{program} printed nothing, and COMMAND_OUTPUT = json")
    try:
        return decode(data)
    except MalformedJson as error:
        raise _not_as_promised(f"{program} printed what is no JSON: {error}") from error


def as_bytes(data: bytes, program: str) -> bytes:
    """The bytes as they are."""
    return data


SHAPES = {"text": as_text, "json": as_json, "bytes": as_bytes}
"""By ``COMMAND_OUTPUT``; ``lines`` is :class:`Lines`."""


class Lines:
    """Cuts lines out of an output as it comes; one may have ``limit`` bytes."""

    def __init__(self, program: str, limit: int) -> None:
        self._program = program
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[str]:
        """The lines that are complete now. Raises :class:`TooLarge` and :class:`ExecutionFailed`."""
        first, *further = data.split(b"\n")
        self._keep(first)
        for piece in further:
            yield self._taken()
            self._keep(piece)

    def end(self) -> Iterator[str]:
        """The last line, where no line break ends it."""
        if self._size:
            yield self._taken()

    def _keep(self, piece: bytes) -> None:
        self._rest.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise TooLarge(f"a line of {self._program}", limit=self._limit)

    def _taken(self) -> str:
        line = b"".join(self._rest)
        self._rest.clear()
        self._size = 0
        return _decoded(line, self._program).removesuffix("\r")


def _decoded(data: bytes, program: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        message = f"{program} printed what is no UTF-8 (byte {error.start}); COMMAND_OUTPUT = bytes takes any"
        raise _not_as_promised(message) from error


def _not_as_promised(message: str) -> ExecutionFailed:
    return ExecutionFailed(message, detail={"type": "CommandOutput"})
