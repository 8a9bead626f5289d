"""Where call records go: the log, the audit file, plugins."""

from __future__ import annotations

import errno
import json
import logging
import os
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

import orjson

from enginehost.errors import ConfigError
from enginehost.log_stream import LogStream, Unwritten
from enginehost.record import CallRecord, RawRecord, Sink, Untaken, call_record, cause_text, error_line
from enginehost.safe_text import Redact
from enginehost.values import encode

MOST_KEPT = 64 * 1024 * 1024
"""Bytes of audit lines that are kept while the file cannot be written."""

MOST_OF_A_VALUE = 64 * 1024
"""Bytes of JSON that an audit keeps of the arguments, and of the result, of a call."""

_LONG = 500

_log = logging.getLogger("enginehost.record")


def line(
    record: RawRecord, event: str, *, cause: bool = False, values: bool = False, redact: Redact = str
) -> bytes:
    """One record as a JSON line, made straight of the tuple: the host pays for one with each call.

    ``cause``: with what a function said and where it raised; ``values``: with arguments and result.
    """
    (
        ended, function, engine, subject, tenant, face, span, trace, parent, outcome, seconds,
        error, arguments, result, peer,
    ) = record  # fmt: skip
    # callers choose names: long ones are not worth keeping
    same = _same if len(function) + len(subject) < _LONG else _same.__wrapped__
    second, micro = divmod(int((ended - seconds) * 1e6), 1_000_000)
    known = b'%b,"time":"%b.%06d+00:00","duration_ms":%.4f,"call_id":"%016x","chain_id":"%032x"' % (
        same(event, function, engine, outcome, subject, face, tenant),
        _second(second),
        micro,
        seconds * 1000,
        span,
        trace,
    )
    more: dict[str, Any] = {}
    if parent:
        more["parent_id"] = f"{parent:016x}"
    if peer:
        more["peer"] = peer
    if error is not None:
        more["error"] = error_line(error, redact, said=cause or values)
        if cause and (text := cause_text(error, redact=redact)):
            more["cause"] = text
    start = b"%b,%b" % (known, _encoded(more)[1:-2]) if more else known
    if values:
        return b'%b,"arguments":%b,"result":%b}\n' % (start, bounded(arguments), bounded(result))
    return start + b"}\n"


def bounded(value: Any) -> bytes:
    """A value as JSON; what is too long is the beginning of its text, marked, with the length it has."""
    try:
        data = orjson.dumps(value, default=str)
    except Exception:  # noqa: BLE001 - lone surrogates, huge integers, a `__str__` that raises, …
        data = _member(value)
    if len(data) <= MOST_OF_A_VALUE:
        return data
    return orjson.dumps({"$cut": data[:MOST_OF_A_VALUE].decode("utf-8", "ignore"), "bytes": len(data)})


@lru_cache(1024)
def _same(
    event: str, function: str, engine: str, outcome: str, subject: str, face: str, tenant: str
) -> bytes:
    """What the lines of many calls have in common, without the closing brace."""
    body = {
        "event": event,
        "function": function,
        "engine": engine,
        "outcome": outcome,
        "subject": subject,
        "face": face,
    }
    return _encoded({**body, "tenant": tenant} if tenant else body)[:-2]


@lru_cache(16)
def _second(second: int) -> bytes:
    """A moment of Unix time as RFC 3339 has it, up to the second."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE, default=str)
    except Exception:  # noqa: BLE001 - lone surrogates, huge integers, a `__str__` that raises, …
        return b"{%s}\n" % b",".join(
            b'"%s":%s' % (key.encode(), _member(value)) for key, value in body.items()
        )


def _member(value: Any) -> bytes:
    """One member alone, so that a value nobody can write costs no more than itself."""
    try:
        return encode(value, allow_nan=True)
    except Exception:  # noqa: BLE001 - a function may be given and may answer anything
        text = value if isinstance(value, str) else f"(a {type(value).__name__} that JSON cannot hold)"
        return json.dumps(text).encode()


def json_log(stream: TextIO, redact: Redact = str) -> Sink:
    """One JSON line per call on ``stream``; values are never in it.

    ``redact`` takes known secrets out of what the line says of an error, here and in the other sinks.
    """
    log = LogStream.of(stream)
    utf8 = log.encoding.lower().replace("_", "-") in ("utf-8", "utf8")

    def sink(records: Sequence[RawRecord]) -> None:
        texts = [line(record, "call", cause=True, redact=redact).decode() for record in records]
        log.put(texts if utf8 else [_ascii(text) for text in texts])

    return sink


def _ascii(text: str) -> str:
    """A line that any stream can take."""
    return text if text.isascii() else json.dumps(json.loads(text), separators=(",", ":")) + "\n"


def console_log(stream: TextIO, redact: Redact = str) -> Sink:
    """One short line per call for people at a terminal."""
    log = LogStream.of(stream)

    def sink(records: Sequence[RawRecord]) -> None:
        log.put([_for_people(record, redact) for record in records])

    return sink


def _for_people(record: RawRecord, redact: Redact) -> str:
    when = datetime.fromtimestamp(record.ended).astimezone().strftime("%H:%M:%S")
    text = (
        f"{when} {record.outcome:<10} {_visible(record.function)}  {record.seconds * 1000:.2f} ms  "
        f"{_visible(record.subject)} via {record.face}{_from(record.peer)}  call {record.span:016x}"
    )
    if record.error is None:
        return f"{text}\n"
    cause = cause_text(record.error, redact=redact).splitlines()
    error = " ".join(error_line(record.error, redact, said=True).split())[:300]
    return "".join((f"{text}  {_visible(error)}\n", *(f"  | {_visible(line)}\n" for line in cause)))


def _from(peer: str) -> str:
    return f" from {_visible(peer)}" if peer else ""


def _visible(text: str) -> str:
    """``text`` without what would steer a terminal or begin a line: a caller may have chosen it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def check_audit(path: Path) -> None:
    """Look whether an audit can be kept in ``path``, and touch nothing. Raises ``ConfigError``.

    Folders are not made: one that is misspelt would take the record where nobody looks for it.
    """
    if found := _obstacle(path):
        raise _no_audit(path, os.strerror(found))


def _obstacle(path: Path) -> int:
    """The number of the error that opening the file would meet; 0 for none."""
    if os.access(path, os.F_OK):
        if path.is_dir():
            return errno.EISDIR
        return 0 if os.access(path, os.W_OK) else errno.EACCES
    if not os.access(path.parent, os.F_OK):
        return errno.ENOENT
    if not path.parent.is_dir():
        return errno.ENOTDIR
    return 0 if os.access(path.parent, os.W_OK | os.X_OK) else errno.EACCES


def _no_audit(path: Path, reason: str | None) -> ConfigError:
    hint = "choose a file this user can write (setting audit.path)"
    if reason == os.strerror(errno.ENOENT):
        hint = f"make its folder, or correct the setting audit.path: mkdir -p {shlex.quote(str(path.parent))}"
    return ConfigError(f"the audit file cannot be opened: {reason}", path=str(path), hint=hint)


class AuditFile:
    """One JSON line per call, appended to a file that only its owner reads; each batch is one write."""

    def __init__(self, path: Path, *, values: bool, redact: Redact = str) -> None:
        self._values = values
        self._redact = redact
        self._unwritten = bytearray()
        try:
            self._descriptor: int | None = os.open(
                path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise _no_audit(path, error.strerror) from error

    def __call__(self, records: Sequence[RawRecord]) -> None:
        """Append the records. What cannot be written (a full disk) is kept and written first next time.

        Raises ``Unwritten``; then at most :data:`MOST_KEPT` bytes are kept, and what is lost is logged.
        """
        self._unwritten += b"".join(
            [line(record, "audit", values=self._values, redact=self._redact) for record in records]
        )
        try:
            self._write()
        except OSError as error:
            raise Unwritten(error, self._forget_beyond(MOST_KEPT)) from error

    def close(self) -> None:
        """Close the file, once."""
        if self._descriptor is None:
            return
        try:
            self._write()
        except OSError as error:
            _log.error("the audit file cannot be written at the end: %s", error.strerror)
            self._forget_beyond(0)
        finally:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self) -> None:
        if self._unwritten and self._descriptor is None:
            raise OSError(errno.EBADF, "the audit file is closed")
        while self._unwritten and self._descriptor is not None:
            del self._unwritten[: os.write(self._descriptor, self._unwritten)]

    def _forget_beyond(self, most: int) -> int:
        """Keep whole lines from the front: the first may be the rest of one that is half written."""
        if len(self._unwritten) <= most:
            return 0
        keep = self._unwritten.rfind(b"\n", 0, most) + 1
        lost = self._unwritten.count(b"\n", keep)
        _log.error("%d audit records are lost", lost)
        del self._unwritten[keep:]
        return lost


def each(observe: Callable[[CallRecord], None], redact: Redact = str, *, values: bool = True) -> Sink:
    """A sink that gives a plugin's ``observe_call`` one record at a time; ``values``: with content."""

    def sink(records: Sequence[RawRecord]) -> None:
        failures: list[BaseException] = []
        for record in records:
            try:
                told = record if values else record._replace(arguments=None, result=None)
                observe(call_record(told, redact))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the plugin boundary
                failures.append(error)
        if failures:
            name = getattr(observe, "__qualname__", "a plugin")
            text = f"{name} failed on {len(failures)} of {len(records)} call records"
            raise Untaken(text, len(failures)) from failures[0]

    return sink
