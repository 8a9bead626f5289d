"""The stream of a log: whatever fails beneath it, no line is torn and what is lost is counted."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import ExecutionFailed
from enginehost.log_stream import LogStream, Unwritten
from enginehost.record import RawRecord, Recorder
from enginehost.sinks import console_log, json_log

ROOMS = st.lists(st.integers(0, 60), min_size=1, max_size=12)
BATCHES = st.lists(st.lists(st.integers(1, 4), max_size=4), min_size=1, max_size=12)


def records(*numbers: int) -> list[RawRecord]:
    error = ExecutionFailed("it failed")
    error.__cause__ = ValueError("why")
    return [
        RawRecord(1e9, "f", "e", "s", "", "python", number, 1, 0, "ok", 0.001, error, None, None)
        for number in numbers
    ]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A file on a disk that has ``disk.room`` bytes left."""

    class Disk:
        room = 0
        path = tmp_path / "log"

    write = os.write

    def small(descriptor: int, data: Any) -> int:
        if descriptor != stream.fileno():
            return write(descriptor, data)
        if not Disk.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = write(descriptor, bytes(data)[: Disk.room])
        Disk.room -= taken
        return taken

    with Disk.path.open("w", encoding="utf-8") as stream:
        Disk.stream = stream  # type: ignore[attr-defined]
        monkeypatch.setattr(os, "write", small)
        yield Disk


@given(rooms=ROOMS, batches=BATCHES)
@settings(max_examples=150, deadline=None)
def test_any_text_is_written_whole_or_counted_as_lost(rooms: list[int], batches: list[list[int]]) -> None:
    taken, room = bytearray(), 0

    def small(descriptor: int, data: Any) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "full")
        took = bytes(data)[:room]
        taken.extend(took)
        room -= len(took)
        return len(took)

    made = lost = 0
    with pytest.MonkeyPatch.context() as patch, Path(os.devnull).open("w") as stream:
        log = LogStream(stream)
        patch.setattr(os, "write", small)
        for place, batch in enumerate(batches):
            room = rooms[place % len(rooms)]
            texts = [f"<{made + number}{' é' * lines}\n  on>\n" for number, lines in enumerate(batch)]
            made += len(texts)
            try:
                log.put(texts)
            except Unwritten as error:
                lost += error.lost
        room = 10**6
        log.put(["<end>\n"])
    found = taken.decode().split(">\n")[:-1]
    assert all(text.startswith("<") and text.count("<") == 1 for text in found)
    assert len(found) == made - lost + 1


@pytest.mark.parametrize("make", [json_log, console_log])
def test_lines_that_a_full_disk_loses_are_counted_and_none_is_torn(
    make: Any, disk: Any, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder([make(disk.stream)], lossless=False)

    def call(*numbers: int) -> None:
        for record in records(*numbers):
            recorder.put(record)
        recorder.flush()

    disk.room = 10**6
    call(1)
    disk.room = disk.path.stat().st_size + 20  # the second one fits, and a part of the third
    call(2, 3, 4)
    call(5)
    disk.room = 10**6
    call(6)
    text = disk.path.read_text()
    assert [number for number in range(1, 7) if f"{number:016x}" in text] == [1, 2, 3, 6]
    assert recorder.dropped == 2
    starts = {"{"} if make is json_log else {text[:2], "  "}
    assert {line[:1] if make is json_log else line[:2] for line in text.splitlines()} == starts
    assert [record.getMessage() for record in caplog.records] == [
        "call records cannot be written: [Errno 28] No space left on device",
        "call records are written again; 2 of them were lost",
    ]


def test_a_reader_that_has_gone_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w", encoding="utf-8")
    log = LogStream(stream)
    assert log.write("nobody reads it\n") == 16
    with pytest.raises(Unwritten) as caught:
        log.put(["a\n", "b\n"])
    assert (caught.value.errno, caught.value.lost) == (errno.EPIPE, 2)
    stream.close()


def test_a_stream_that_is_closed_is_no_error(tmp_path: Path) -> None:
    file = (tmp_path / "log").open("w", encoding="utf-8")
    for stream in (file, io.StringIO()):
        log = LogStream(stream)
        stream.close()
        log.write("x\n")
        with pytest.raises(Unwritten, match="closed"):
            log.put(["x\n"])


def test_a_full_pipe_that_does_not_block_is_waited_for() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    text = "x" * 300_000 + "\n"
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "w", encoding="utf-8") as stream:
        log = LogStream(stream)
        with pytest.raises(Unwritten) as caught:  # nobody reads
            log.put([text, "lost\n"])
        assert caught.value.lost == 1
        lines: list[bytes] = []
        thread = Thread(target=lambda: lines.extend(reader.readline() for _ in range(3)))
        thread.start()
        log.put(["after\n", text])
        thread.join()
    assert [line.decode() for line in lines] == [text, "after\n", text]


def test_a_stream_without_a_descriptor_begins_a_new_line_after_a_failure() -> None:
    class Full(io.StringIO):
        full = True

        def flush(self) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "full")

    stream = Full()
    log = LogStream(stream)
    log.write("torn, perhaps\n")
    stream.full = False
    log.write("whole\n")
    assert stream.getvalue().splitlines()[-1] == "whole"


def test_what_others_write_on_the_stream_comes_in_order(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w", encoding="utf-8") as stream:
        log = LogStream(stream)
        stream.write("first\n")
        log.write("second ü\n")
        stream.write("third\n")
    assert (tmp_path / "log").read_text(encoding="utf-8").splitlines() == ["first", "second ü", "third"]
