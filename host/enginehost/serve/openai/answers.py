"""An answer as Chat Completions has it: one object, or chunks as they come.

For each piece of text a chunk is put together of bytes that were made once: it is the path of every token.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from enginehost.llm.message import Message, Type, Usage, new_id
from enginehost.values import encode

_FINISHES = ("length", "content_filter")
DONE = b"data: [DONE]\n\n"


def usage_json(usage: Usage) -> dict[str, Any]:
    """The tokens of an answer."""
    before = usage.input + usage.cached + usage.cache_written
    return {
        "prompt_tokens": before,
        "completion_tokens": usage.output,
        "total_tokens": before + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


class Said:
    """What came of an answer so far: what its end depends on."""

    def __init__(self) -> None:
        self.calls = 0
        self.usage = Usage()
        self._finish = ""

    def see(self, message: Message) -> None:
        """Take a piece into account."""
        if message.usage is not None:
            self.usage = message.usage
        if message.provider is not None and "finish" in message.provider:
            self._finish = str(message.provider["finish"])

    @property
    def finish(self) -> str:
        """Why the answer ended."""
        if self.calls:
            return "tool_calls"
        return self._finish if self._finish in _FINISHES else "stop"


def call_json(message: Message) -> dict[str, Any]:
    """A call of a function."""
    query = message.query or {}
    arguments = encode(query.get("args", {})).decode()
    function = {"name": str(query.get("tool", "")), "arguments": arguments}
    return {"id": message.call_id, "type": "function", "function": function}


async def completion(model: str, pieces: AsyncGenerator[Message, None]) -> bytes:
    """The whole answer."""
    said, texts, thoughts = Said(), list[str](), list[str]()
    calls: list[dict[str, Any]] = []
    async with aclosing(pieces):
        async for message in pieces:
            said.see(message)
            match message.type:
                case Type.TEXT | Type.DATA:
                    texts.append(message.content)
                case Type.REASONING:
                    thoughts.append(message.content)
                case Type.TOOL_CALL:
                    calls.append(call_json(message))
                    said.calls += 1
                case _:
                    pass
    text, thought = "".join(texts), "".join(thoughts)
    told: dict[str, Any] = {
        "role": "assistant",
        "content": text if text or not calls else None,
        "refusal": None,
    }
    told |= {"tool_calls": calls} if calls else {}
    told |= {"reasoning_content": thought} if thought else {}
    choice = {"index": 0, "message": told, "logprobs": None, "finish_reason": said.finish}
    return encode(
        {
            "id": f"chatcmpl-{new_id()}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [choice],
            "usage": usage_json(said.usage),
        }
    )


async def chunks(
    model: str, pieces: AsyncGenerator[Message, None], *, usage: bool
) -> AsyncGenerator[bytes, None]:
    """The answer as server-sent events."""
    head = (
        b'data: {"id":"chatcmpl-%b","object":"chat.completion.chunk","created":%d,"model":%b,"choices":['
        % (new_id().encode(), int(time.time()), encode(model))
    )
    start, end = head + b'{"index":0,"delta":', b',"logprobs":null,"finish_reason":null}]}\n\n'
    text, thought = start + b'{"content":', start + b'{"reasoning_content":'
    said, begun = Said(), False
    async with aclosing(pieces):
        async for message in pieces:
            said.see(message)
            if not begun:
                begun = True
                yield start + b'{"role":"assistant","content":""}' + end
            if message.type is Type.TOOL_CALL:
                call = {"index": said.calls} | call_json(message)
                said.calls += 1
                yield start + encode({"tool_calls": [call]}) + end
            elif message.content and message.type in (Type.TEXT, Type.DATA):
                yield text + json.dumps(message.content).encode() + b"}" + end
            elif message.content and message.type is Type.REASONING:
                yield thought + json.dumps(message.content).encode() + b"}" + end
    yield start + b'{},"logprobs":null,"finish_reason":"%b"}]}\n\n' % said.finish.encode()
    if usage:
        yield head + b'],"usage":' + encode(usage_json(said.usage)) + b"}\n\n"
    yield DONE
