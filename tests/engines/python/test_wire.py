"""Frames: whole on both sides, however the bytes come."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import TooLarge
from enginehost_engines.worker import wire
from enginehost_engines.worker.process import Worker, WorkerSpec
from enginehost_engines.worker.wire import Frame, FrameReader, frame

FRAMES = st.lists(
    st.tuples(
        st.integers(0, 255),
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
    reader, read = FrameReader(), list[Frame]()
    for piece in cut(b"".join(frame(*one) for one in frames), sizes):
        read += reader.feed(piece)
    assert read == frames


@settings(max_examples=60, deadline=None)
@given(FRAMES, PIECES)
def test_the_host_reads_what_was_sent_whatever_the_pieces(frames: list[Frame], sizes: list[int]) -> None:
    read: list[Frame] = []

    class Reader(Worker):
        def _received(self, kind: int, call_id: int, payload: bytes) -> None:
            read.append((kind, call_id, payload))

    worker = Reader(WorkerSpec(b"", ""), logging.getLogger(), lambda _: None, lambda _: None)
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
