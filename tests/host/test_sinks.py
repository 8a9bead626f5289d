"""Lines of the log and the audit: one per call, readable, whatever the call held."""

from __future__ import annotations

import errno
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import ConfigError, EngineHostError, ExecutionFailed
from enginehost.record import CallRecord, RawRecord
from enginehost.redaction import Redactor
from enginehost.sinks import (
    MOST_KEPT,
    MOST_OF_A_VALUE,
    AuditFile,
    check_audit,
    console_log,
    each,
    json_log,
    line,
)
from enginehost.values import encode

SURROGATES = st.text(st.characters(), max_size=20) | st.text(st.characters(categories=["Cs"]), max_size=3)


class Unspeakable:
    """A value with no text."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def raw(
    number: int = 1, function: str = "f", subject: str = "s", error: Any = None, given: Any = None
) -> RawRecord:
    return RawRecord(
        1e9, function, "e", subject, "t", "python", number, 1, 0, "ok", 0.001, error, given, given
    )


def paired(text: str) -> str:
    """Two surrogates that make a character are that character: JSON cannot tell them apart."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def cycle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@given(function=SURROGATES, subject=SURROGATES, message=SURROGATES)
@settings(max_examples=100, deadline=None)
def test_a_call_is_one_json_line_whatever_its_names(function: str, subject: str, message: str) -> None:
    data = line(raw(function=function, subject=subject, error=EngineHostError(message)), "call")
    assert data.count(b"\n") == 1
    body = json.loads(data)
    assert (body["function"], body["subject"], body["error"]) == tuple(
        map(paired, (function, subject, message))
    )


@pytest.mark.parametrize(
    "value",
    [10**400, 10**5000, float("nan"), "\ud800", object(), {1: 2}, {("a",): 1}, {1, 2}, b"x", cycle(),
     Unspeakable(), {"a": Unspeakable()}, [[[]]] * 3],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_no_value_costs_the_audit_its_line(value: Any) -> None:
    data = line(raw(given={"x": value}), "audit", values=True)

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is no JSON")

    body = json.loads(data.replace(str(10**400).encode(), b"1"), parse_constant=refuse)
    assert body["function"] == "f"
    assert "arguments" in body


@pytest.mark.parametrize(
    "value",
    ["x" * 200_000, ["é"] * 100_000, {"a": {"b": '"' * 100_000}}, "\ud800" * 20_000, [1] * 50_000],
)
def test_an_audit_keeps_the_beginning_of_a_long_value_and_says_so(value: Any) -> None:
    data = line(raw(given=value), "audit", values=True)
    assert len(data) < 5 * MOST_OF_A_VALUE
    for kept in (json.loads(data)["arguments"], json.loads(data)["result"]):
        whole = encode(value) if value != "\ud800" * 20_000 else json.dumps(value).encode()
        assert kept["bytes"] == len(whole)
        assert whole.decode().startswith(kept["$cut"])
        assert len(kept["$cut"].encode()) in (MOST_OF_A_VALUE, MOST_OF_A_VALUE - 1)


def test_an_audit_keeps_a_value_of_the_longest_kept_length_whole() -> None:
    value = "x" * (MOST_OF_A_VALUE - 2)
    assert json.loads(line(raw(given=value), "audit", values=True))["result"] == value
    assert json.loads(line(raw(given=value + "x"), "audit", values=True))["result"]["$cut"] == f'"{value}x'


def test_an_error_whose_text_fails_is_still_a_line() -> None:
    class Mute(EngineHostError):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert "Mute" in json.loads(line(raw(error=Mute("x")), "call"))["error"]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_a_log_stream_of_any_encoding_gets_every_call(encoding: str) -> None:
    for make in (json_log, console_log):
        buffer = io.BytesIO()
        stream = io.TextIOWrapper(buffer, encoding=encoding, errors="strict", newline="\n")
        make(stream)([raw(1, "grüße"), raw(2, "数"), raw(3, "\ud800")])
        assert buffer.getvalue().count(b"\n") == 3
        if make is json_log:
            lines = [json.loads(text) for text in buffer.getvalue().decode(encoding).splitlines()]
            assert [body["function"] for body in lines] == ["grüße", "数", "\ud800"]


def test_a_caller_cannot_write_lines_or_steer_the_terminal() -> None:
    stream = io.StringIO()
    try:
        raise ExecutionFailed("x") from ValueError("\x1b[2J\rgone\n00:00:00 ok")
    except ExecutionFailed as error:
        console_log(stream)([raw(function="f\n00:00:00 ok  admin", subject="\x1b[31mred", error=error)])
    assert "\x1b" not in stream.getvalue()
    assert "\r" not in stream.getvalue()
    assert "  | 00:00:00 ok\n" in stream.getvalue()
    assert not any(text.startswith("00:00:00") for text in stream.getvalue().splitlines())


def test_a_full_disk_loses_no_record_and_tears_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl", values=False)
    write, room = os.write, [100]

    def small_disk(descriptor: int, data: Any) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = write(descriptor, bytes(data)[: room[0]])
        room[0] -= taken
        return taken

    monkeypatch.setattr(os, "write", small_disk)
    audit([])
    for number in range(1, 6):
        with pytest.raises(OSError, match="No space"):
            audit([raw(number)])
    room[0] = 10**6
    audit([raw(6)])
    audit.close()
    spans = [json.loads(text)["call_id"] for text in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert spans == [f"{number:016x}" for number in range(1, 7)]


def test_what_a_full_disk_loses_in_the_end_is_counted_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl", values=False)

    def full(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        patch.setattr("enginehost.sinks.MOST_KEPT", 700)
        for number in range(4):
            with pytest.raises(OSError, match="No space"):
                audit([raw(number)])
        audit.close()
    lost = [record.args[0] for record in caplog.records if "audit records are lost" in record.msg]  # type: ignore[index]
    assert sum(lost) == 4  # type: ignore[arg-type]
    assert MOST_KEPT > 10**6
    audit.close()


def test_an_audit_file_that_cannot_be_opened_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "audit.jsonl", tmp_path, tmp_path / "no such" / "audit.jsonl"):
        with pytest.raises(ConfigError) as caught:
            AuditFile(path, values=False)
        assert "audit.path" in caught.value.hint
        with pytest.raises(ConfigError) as looked:
            check_audit(path)
        assert (looked.value.message, looked.value.hint) == (caught.value.message, caught.value.hint)
    assert f"mkdir -p '{tmp_path / 'no such'}'" in caught.value.hint
    assert sorted(tmp_path.iterdir()) == [tmp_path / "file"]


def test_to_look_whether_an_audit_can_be_kept_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    check_audit(path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("kept\n")
    check_audit(path)
    assert path.read_text() == "kept\n"


def test_an_audit_file_is_appended_to_and_closed_once(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for number in range(2):
        audit = AuditFile(path, values=False)
        audit([raw(number)])
        audit.close()
        audit.close()
        with pytest.raises(OSError, match="closed"):
            audit([raw(9)])
    assert len(path.read_text().splitlines()) == 2


def test_an_observer_that_fails_on_one_call_sees_the_others() -> None:
    seen: list[str] = []

    def observe(record: CallRecord) -> None:
        if record.call_id.endswith("2"):
            raise RuntimeError("not this one")
        seen.append(record.call_id[-1])

    with pytest.raises(RuntimeError, match="failed on 1 of 3 call records"):
        each(observe)([raw(1), raw(2), raw(3)])
    assert seen == ["1", "3"]


def test_no_sink_writes_a_known_secret(tmp_path: Path) -> None:
    redactor = Redactor()
    redactor.add("s3cr3t-key")
    error = ExecutionFailed("it said s3cr3t-key")
    error.__cause__ = ValueError("s3cr3t-key " * 5000 + "in /home/alice/x.py")
    machine, people = io.StringIO(), io.StringIO()
    told: list[CallRecord] = []
    audit = AuditFile(tmp_path / "audit.jsonl", values=False, redact=redactor)
    for sink in (
        json_log(machine, redactor),
        console_log(people, redactor),
        each(told.append, redactor),
        audit,
    ):
        sink([raw(error=error)])
    audit.close()
    written = [machine.getvalue(), people.getvalue(), (tmp_path / "audit.jsonl").read_text()]
    for text in (*written, told[0].error, told[0].cause):
        assert "s3cr3t" not in text
    for text in (*written[:2], told[0].error, told[0].cause):
        assert "it said ***" in text or "/home/alice/x.py" in text
    assert "it said" not in written[2]  # what a function says may be values
