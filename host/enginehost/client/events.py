"""Server-sent events (WHATWG HTML, 9.2.6) of a host, and where a client goes on after a cut."""

from __future__ import annotations

from typing import NamedTuple

from enginehost.client.faults import NotAHost

_MOST_EVENT = 256 * 1024 * 1024
"""Bytes of one event."""


class Event(NamedTuple):
    """One event; ``data`` is JSON."""

    id: str
    name: str
    data: bytes


class EventReader:
    """Makes events of the bytes of a stream, however they are cut. Only line feeds end lines here."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0
        self._id, self._name, self._data = "", "", list[bytes]()

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that ``chunk`` completes. Raises :class:`NotAHost` for one without an end."""
        if b"\n" not in chunk:
            self._keep(chunk)
            return []
        *lines, rest = b"".join((*self._rest, chunk)).split(b"\n")
        self._rest, self._size = [], sum(map(len, self._data))
        self._keep(rest)
        return [event for line in lines if (event := self._line(line.removesuffix(b"\r"))) is not None]

    def _keep(self, rest: bytes) -> None:
        self._rest.append(rest)
        self._size += len(rest)
        if self._size > _MOST_EVENT:
            raise NotAHost(f"an event of the stream has more than {_MOST_EVENT} bytes")

    def _line(self, line: bytes) -> Event | None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"id":
            self._id = value.decode(errors="replace")
        elif not line and self._data:
            found = Event(self._id, self._name, b"\n".join(self._data))
            self._id, self._name, self._data = "", "", []
            return found
        return None
