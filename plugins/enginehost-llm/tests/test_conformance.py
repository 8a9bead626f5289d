"""The engine does what every model engine must, with a model of a plugin of ``llm``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import llm
import pytest
from enginehost_llm import LlmModel
from llm.parts import StreamEvent, ToolResultPart

from enginehost.testing import ModelContract


class Conversing(llm.AsyncModel):
    """Answers what the conformance suite asks."""

    model_id = "conversing"
    can_stream = True
    supports_tools = True
    supports_schema = True

    async def execute(self, prompt: Any, stream: Any, response: Any, conversation: Any) -> Any:
        last = prompt.messages[-1].parts[-1]
        said = "" if isinstance(last, ToolResultPart) else last.text
        if said == "tools":
            assert prompt.tools[0].name == "weather_today"
            for town in ("Bonn", "Ulm"):
                response.add_tool_call(llm.ToolCall("weather_today", {"town": town}, town))
        elif said == "json":
            yield '{"town": "Bonn", '
            yield '"degrees": 21}'
        elif said == "think":
            yield StreamEvent("reasoning", "hm", provider_metadata={"signature": "s"})
            yield "I see."
        elif said == "endless":
            yield "Once"
            await anyio.sleep_forever()
        elif said == "fail":
            raise llm.ModelError("no")
        else:
            for piece in ("Hel", "lo ", "you"):
                yield piece
        response.set_usage(input=1, output=2)


class TestLlm(ModelContract):
    engine_class = LlmModel
    smss = "ENGINE_CLASS = Llm\nMODEL = conversing\nAPI_KEY = very-secret\nRETRIES = 0\n"
    calls_a_tool = "tools"
    gives_data = "json"
    thinks = "think"
    never_ends = "endless"
    fails = "fail"

    @pytest.fixture(autouse=True)
    def _installed(self, registered: Callable[..., None]) -> None:
        registered(Conversing(), Conversing())
