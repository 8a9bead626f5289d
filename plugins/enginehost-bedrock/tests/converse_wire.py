"""The messages of ConverseStream, as Amazon's event stream frames them."""

from __future__ import annotations

import binascii
import struct
from typing import Any

import orjson

USAGE = {"inputTokens": 7, "outputTokens": 9, "totalTokens": 16, "cacheReadInputTokens": 5}


def frame(kind: str, value: Any, message_type: str = "event") -> bytes:
    """One message of an event stream, as Amazon's format has it."""
    of = "exception-type" if message_type == "exception" else "event-type"
    headers = {":message-type": message_type, f":{of}": kind, ":content-type": "application/json"}
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(text)) + text.encode()
        for name, text in headers.items()
    )
    payload = orjson.dumps(value)
    prelude = struct.pack("!II", len(head) + len(payload) + 16, len(head))
    message = prelude + struct.pack("!I", binascii.crc32(prelude)) + head + payload
    return message + struct.pack("!I", binascii.crc32(message))


def delta(index: int, **said: Any) -> bytes:
    return frame("contentBlockDelta", {"contentBlockIndex": index, "delta": said})


def stop(index: int) -> bytes:
    return frame("contentBlockStop", {"contentBlockIndex": index})


def text(index: int, *pieces: str) -> list[bytes]:
    return [*(delta(index, text=one) for one in pieces), stop(index)]


def tool(index: int, *pieces: str, name: str = "weather_now", id: str = "tooluse_1") -> list[bytes]:
    start = {"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": id, "name": name}}}
    calls = (delta(index, toolUse={"input": one}) for one in pieces)
    return [frame("contentBlockStart", start), *calls, stop(index)]


def end(reason: str) -> list[bytes]:
    metadata = {"usage": USAGE, "metrics": {"latencyMs": 1}}
    return [frame("messageStop", {"stopReason": reason}), frame("metadata", metadata)]


START = frame("messageStart", {"role": "assistant"})
