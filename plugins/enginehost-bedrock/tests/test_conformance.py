"""The engine does what every model engine must, against a server that speaks Converse."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import orjson
import pytest
from converse_wire import delta, end, stop, text, tool
from enginehost_bedrock import BedrockModel

from enginehost.testing import ModelContract
from enginehost.testing.wire import CUT, HANG, Reply, Seen, provider_on_thread

END = end("end_turn")


def whole(index: int, name: str, args: Any) -> list[bytes]:
    """A tool call whose arguments come in two pieces."""
    said = orjson.dumps(args).decode()
    return tool(index, said[:5], said[5:], name=name, id=f"t{index}")


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
        bonn, ulm = (whole(at, "weather_today", {"town": one}) for at, one in enumerate(("Bonn", "Ulm")))
        return Reply((*bonn, *ulm, *END))
    if said == "json":
        return Reply((*whole(0, "answer", {"town": "Bonn", "degrees": 21}), *END))
    if said == "think":
        thoughts = ({"text": "hm"}, {"signature": "s"})
        thought = (delta(0, reasoningContent=one) for one in thoughts)
        return Reply((*thought, stop(0), *text(1, "I see."), *END))
    return Reply((*text(0, "Hel", "lo ", "you"), *END))


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
