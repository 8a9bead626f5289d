"""The engine does what every model engine must, against a server that speaks Converse."""

from __future__ import annotations

import binascii
import struct
from collections.abc import Generator
from typing import Any

import orjson
import pytest
from enginehost_bedrock import BedrockModel

from enginehost.testing import ModelContract
from enginehost.testing.wire import CUT, HANG, Reply, Seen, provider_on_thread


def frame(kind: str, **value: Any) -> bytes:
    """One message of an event stream."""
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(text)) + text.encode()
        for name, text in ((":message-type", "event"), (":event-type", kind))
    )
    payload = orjson.dumps(value)
    prelude = struct.pack("!II", len(head) + len(payload) + 16, len(head))
    message = prelude + struct.pack("!I", binascii.crc32(prelude)) + head + payload
    return message + struct.pack("!I", binascii.crc32(message))


def delta(index: int, **said: Any) -> bytes:
    return frame("contentBlockDelta", contentBlockIndex=index, delta=said)


def text(index: int, *pieces: str) -> bytes:
    stop = frame("contentBlockStop", contentBlockIndex=index)
    return b"".join(delta(index, text=one) for one in pieces) + stop


def tool(index: int, name: str, args: Any) -> bytes:
    start = {"toolUse": {"toolUseId": f"t{index}", "name": name}}
    stop = frame("contentBlockStop", contentBlockIndex=index)
    said = orjson.dumps(args).decode()
    pieces = b"".join(delta(index, toolUse={"input": one}) for one in (said[:5], said[5:]))
    return frame("contentBlockStart", contentBlockIndex=index, start=start) + pieces + stop


END = frame("messageStop", stopReason="end_turn") + frame(
    "metadata", usage={"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}, metrics={"latencyMs": 1}
)


def react(seen: Seen) -> Reply:
    """What the provider says to a request, by the last thing in it that a user said."""
    body = seen.json()
    content = [one for one in body["messages"][-1]["content"] if "cachePoint" not in one]
    said = content[-1].get("text", "")
    if "toolResult" in content[-1]:
        calls = [one["toolUse"]["toolUseId"] for one in body["messages"][-2]["content"] if "toolUse" in one]
        assert calls == [one["toolResult"]["toolUseId"] for one in content]
    if said == "fail":
        return Reply((b'{"message":"no"}',), 400)
    if said == "endless":
        return Reply((delta(0, text="Once"), HANG))
    if said == "cut":
        return Reply((delta(0, text="Once"), CUT))
    if said == "tools":
        towns = ("Bonn", "Ulm")
        return Reply((*(tool(at, "weather_today", {"town": one}) for at, one in enumerate(towns)), END))
    if said == "json":
        return Reply((tool(0, "answer", {"town": "Bonn", "degrees": 21}), END))
    if said == "think":
        thoughts = ({"text": "hm"}, {"signature": "s"})
        thought = b"".join(delta(0, reasoningContent=one) for one in thoughts)
        return Reply((thought + frame("contentBlockStop", contentBlockIndex=0), text(1, "I see."), END))
    return Reply((text(0, "Hel", "lo ", "you"), END))


class TestBedrock(ModelContract):
    engine_class = BedrockModel
    calls_a_tool = "tools"
    gives_data = "json"
    thinks = "think"
    never_ends = "endless"
    is_cut = "cut"
    fails = "fail"
    smss = (
        "ENGINE_CLASS = Bedrock\nMODEL = anthropic.claude-test-v1:0\nAWS_REGION = eu-central-1\n"
        "AWS_ACCESS_KEY = AKID-of-test\nAWS_SECRET_KEY = very-secret\nRETRIES = 0\nLIST_MODELS = false\n"
    )

    @pytest.fixture(autouse=True)
    def _served(self) -> Generator[None, None, None]:
        with provider_on_thread(react) as server:
            self.smss += f"ENDPOINT = {server.url}\n"
            yield
