"""Request bodies written as they come, and events split as they arrive."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import EngineHostError, ExecutionFailed, InvalidRequest
from enginehost.llm import sse
from enginehost.llm.body import CHUNK, Pieces, Turns, escaped, json_bytes, spooled, written
from enginehost.llm.failures import from_event, from_status, may_pass, retry_after
from enginehost.llm.message import Message, Role, Status, new_id, user
from enginehost.llm.sse import Splitter


class Talk(Turns):
    def role(self, message: Message) -> str:
        return message.role

    def open_turn(self, role: str) -> bytes:
        return b'{"role":"' + role.encode() + b'","content":['

    def close_turn(self, role: str) -> bytes:
        return b"]}"

    def open_block(self, message: Message) -> bytes:
        return b'"'

    def close_block(self, message: Message) -> bytes:
        return b'"'


async def rows(messages: Iterable[Message]) -> AsyncGenerator[Message, None]:
    for message in messages:
        yield message


async def test_small_rows_are_joined_to_chunks_and_turns() -> None:
    messages = [user("word " * 20) for _ in range(5000)]
    chunks = [chunk async for chunk in written(b"[", rows(messages), Talk(), b"]")]
    assert all(CHUNK <= len(chunk) < 2 * CHUNK for chunk in chunks[:-1])
    ((turn),) = json.loads(b"".join(chunks))
    assert len(turn["content"]) == 5000


async def test_rows_that_end_or_begin_inside_a_message_are_a_mistake() -> None:
    piece = Message(Role.USER, content="a", id="1", status=Status.OPEN)
    for wrong in ([piece], [piece, user("b")]):
        with pytest.raises(InvalidRequest, match=r"middle of|inside"):
            [chunk async for chunk in written(b"", rows(wrong), Talk())]


@given(st.lists(st.text(st.characters(codec=None, exclude_categories=())), max_size=5))
def test_escaped_pieces_put_together_are_the_text_escaped(parts: list[str]) -> None:
    text = "".join("�" if 0xD800 <= ord(c) < 0xE000 else c for c in "".join(parts))
    assert len(json.loads(b'"' + b"".join(map(escaped, parts)) + b'"')) <= len(text)
    clean = [part.encode("utf-8", "ignore").decode() for part in parts]
    assert json.loads(b'"' + b"".join(map(escaped, clean)) + b'"') == "".join(clean)


def test_numbers_of_any_size_are_json() -> None:
    assert json.loads(json_bytes({"n": 2**70, "t": "\ud800"})) == {"n": 2**70, "t": "�"}


async def test_a_spooled_body_is_read_as_often_as_it_is_sent() -> None:
    data = [b"x" * 70_000, b"y" * 3_000_000, b""]
    async with spooled(_bytes(data)) as body:
        assert body.size == 3_070_000
        for _ in range(2):
            assert b"".join([chunk async for chunk in body.chunks()]) == b"".join(data)


async def _bytes(parts: list[bytes]) -> AsyncGenerator[bytes, None]:
    for part in parts:
        yield part


def test_pieces_know_the_first_and_the_last() -> None:
    pieces, open_ = Pieces(), Message(Role.USER, id="1", status=Status.OPEN)
    done = Message(Role.USER, id="1")
    assert [pieces.look(one) for one in (open_, open_, done, done)] == [
        (True, False),
        (False, False),
        (False, True),
        (True, True),
    ]


ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=8)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.lists(LINE, min_size=1, max_size=3), st.booleans(), st.booleans()), max_size=6),
    ENDS,
    st.booleans(),
    st.data(),
)
def test_events_are_the_same_however_they_are_cut(
    given_events: list[tuple[list[str], bool, bool]], end: bytes, bom: bool, data: st.DataObject
) -> None:
    text = b"\xef\xbb\xbf" if bom else b""
    for lines, named, spaced in given_events:
        text += b": a comment" + end + (b"event: some" + end if named else b"")
        text += b"".join((b"data: " if spaced else b"data:") + line.encode() + end for line in lines)
        text += b"id: 7" + end + end
    expected = [
        "\n".join(line.removeprefix(" ") if not spaced else line for line in lines)
        for lines, _, spaced in given_events
    ]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    splitter = Splitter()
    found: list[bytes] = []
    for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += splitter.feed(text[a:b])
    found += splitter.end()
    assert [one.decode() for one in found] == expected


def test_an_event_without_its_blank_line_counts_at_the_end() -> None:
    splitter = Splitter()
    assert splitter.feed(b"data: 1\n\ndata: [DONE]") == [b"1"]
    assert splitter.end() == [b"[DONE]"]


def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MOST_EVENT", 1000)
    splitter = Splitter()
    for _ in range(10):
        splitter.feed(b"x" * 100)
    with pytest.raises(ExecutionFailed, match="more than 1000 bytes"):
        splitter.feed(b"x")


@pytest.mark.parametrize(
    ("error", "code", "retryable", "after"),
    [
        (from_status("m", 429, {"retry-after": "7"}, b"{}"), "overloaded", True, 7),
        (from_status("m", 429, {"retry-after-ms": "1500"}, b"x"), "overloaded", True, 1.5),
        (from_status("m", 529, {}, b'{"error": {"message": "full"}}'), "overloaded", True, None),
        (from_status("m", 503, {"retry-after": "3"}, b""), "execution_failed", True, 3),
        (from_status("m", 404, {}, b'[{"error": {"message": "no"}}]'), "execution_failed", False, None),
        (from_event("m", {"message": "x", "code": 429}), "overloaded", True, None),
        (from_event("m", {"message": "x", "type": "server_error"}), "execution_failed", True, None),
        (from_event("m", {"message": "x", "code": "invalid_prompt"}), "execution_failed", False, None),
        (from_event("m", "just words"), "execution_failed", True, None),
    ],
)
def test_failures_say_what_may_help(
    error: EngineHostError, code: str, retryable: bool, after: float | None
) -> None:
    assert (error.code, may_pass(error), error.detail.get("retry_after")) == (code, retryable, after)


@given(st.text(max_size=40))
def test_any_retry_after_is_read_or_left(text: str) -> None:
    found = retry_after({"retry-after": text, "retry-after-ms": text})
    assert found is None or found >= 0


def test_ids_sort_by_the_time_they_were_made() -> None:
    ids = [new_id() for _ in range(3)]
    assert len(set(ids)) == 3
    assert all(one[14] == "7" for one in ids)
