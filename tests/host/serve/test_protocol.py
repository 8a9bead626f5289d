import asyncio
from typing import Any

import pytest

from enginehost.serve.protocol import OneWrite

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def write_eof(self) -> None:
        self.written.append(b"EOF")

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1)}.get(name, default)


@pytest.fixture
async def wire() -> Wire:
    return Wire()


async def test_head_and_body_go_out_as_one(wire: Wire) -> None:
    transport = OneWrite(wire)
    transport.write(HEAD)
    transport.write(b"ok")
    assert wire.written == [HEAD + b"ok"]
    await asyncio.sleep(0)
    assert wire.written == [HEAD + b"ok"]


async def test_a_head_whose_body_is_late_goes_out_when_the_loop_turns(wire: Wire) -> None:
    transport = OneWrite(wire)
    transport.write(HEAD)
    assert wire.written == []
    await asyncio.sleep(0)
    assert wire.written == [HEAD]
    transport.write(b"ok")
    assert wire.written == [HEAD, b"ok"]


async def test_what_follows_the_first_piece_of_a_body_is_never_kept(wire: Wire) -> None:
    transport = OneWrite(wire)
    for piece in (HEAD, b"data: 1\n\n", b"data: 2\n\n"):
        transport.write(piece)
    assert wire.written == [HEAD + b"data: 1\n\n", b"data: 2\n\n"]


async def test_a_continue_goes_out_before_the_answer_and_in_order(wire: Wire) -> None:
    transport = OneWrite(wire)
    goes_on = b"HTTP/1.1 100 Continue\r\n\r\n"
    transport.write(goes_on)
    transport.write(HEAD)
    transport.write(b"ok")
    await asyncio.sleep(0)
    assert b"".join(wire.written) == goes_on + HEAD + b"ok"


async def test_closing_sends_what_waits_first(wire: Wire) -> None:
    transport = OneWrite(wire)
    transport.write(HEAD)
    transport.close()
    assert (wire.written, wire.closed) == ([HEAD], True)


async def test_the_end_is_told_behind_what_waits(wire: Wire) -> None:
    transport = OneWrite(wire)
    transport.write(HEAD)
    transport.write_eof()
    await asyncio.sleep(0)
    assert (wire.written, wire.closed) == ([HEAD, b"EOF"], False)


async def test_nothing_is_written_to_a_connection_that_is_gone(wire: Wire) -> None:
    transport = OneWrite(wire)
    transport.write(HEAD)
    wire.close()
    await asyncio.sleep(0)
    assert wire.written == []


async def test_what_the_system_knows_of_the_connection_is_seen_through(wire: Wire) -> None:
    transport = OneWrite(wire)
    assert transport.get_extra_info("peername") == ("127.0.0.1", 1)
    assert transport.get_extra_info("sslcontext") is None
