"""Frames: whole on both sides, however the bytes come."""

from __future__ import annotations

import asyncio
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import TooLarge
from enginehost_engines.worker import wire
from enginehost_engines.worker.connection import Connection
from enginehost_engines.worker.wire import Frame, FrameBuffer, frame

FRAMES = st.lists(
    st.tuples(
        st.integers(0, 127),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=40) | st.sampled_from([b"x" * 300_000, b"y" * 700_000]),
    ),
    max_size=6,
)
PIECES = st.lists(st.integers(1, 400_000) | st.integers(1, 20), min_size=1, max_size=30)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [piece for piece in (*pieces, data) if piece]


@settings(max_examples=60, deadline=None)
@given(FRAMES, PIECES)
def test_a_worker_reads_what_was_sent_whatever_the_pieces(frames: list[Frame], sizes: list[int]) -> None:
    reader, read = FrameBuffer(), list[Frame]()
    for piece in cut(b"".join(frame(*one) for one in frames), sizes):
        while piece:
            taken = min(len(reader.room()), len(piece))
            assert taken > 0
            reader.room()[:taken] = piece[:taken]
            read += reader.filled(taken)
            piece = piece[taken:]
    assert read == frames


@settings(max_examples=60, deadline=None)
@given(FRAMES, PIECES)
def test_the_host_reads_what_was_sent_whatever_the_pieces(frames: list[Frame], sizes: list[int]) -> None:
    read: list[Frame] = []

    def received(kind: int, call_id: int, payload: bytes) -> None:
        read.append((kind, call_id, payload))

    worker = Connection(received, lambda: None, lambda: pytest.fail("malformed"))
    for piece in cut(b"".join(frame(*one) for one in frames), sizes):
        while piece:
            room = worker.get_buffer(-1)
            taken = min(len(room), len(piece))
            assert taken > 0
            room[:taken] = piece[:taken]
            worker.buffer_updated(taken)
            piece = piece[taken:]
    assert read == frames


def test_a_message_over_the_limit_is_refused_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 10)
    frame(1, 1, b"x" * 10)
    with pytest.raises(TooLarge) as caught:
        frame(1, 1, b"x" * 11)
    assert caught.value.detail == {"limit": 10, "size": 11}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0, 40, 300_000, 2_000_000]), st.booleans()), max_size=8))
async def test_frames_arrive_in_their_order_whether_sent_at_once_or_together(
    sent: list[tuple[int, bool]],
) -> None:
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    connection = Connection(lambda *_: None, lambda: None, lambda: pytest.fail("malformed"))
    transport, _ = await loop.create_connection(lambda: connection, sock=ours)
    reader, writer = await asyncio.open_unix_connection(sock=theirs)
    wanted = b""
    for number, (size, now) in enumerate(sent):
        connection.send(1, number, b"x" * size, now=now)
        wanted += frame(1, number, b"x" * size)
    assert await asyncio.wait_for(reader.readexactly(len(wanted)), 60) == wanted
    transport.close()
    writer.close()
    await writer.wait_closed()
