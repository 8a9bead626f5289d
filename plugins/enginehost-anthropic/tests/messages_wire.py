"""The events of the Messages API, as its servers stream them."""

from __future__ import annotations

from typing import Any

START = {
    "type": "message_start",
    "message": {
        "model": "claude-x",
        "usage": {
            "input_tokens": 7,
            "cache_read_input_tokens": 5,
            "cache_creation_input_tokens": 3,
            "output_tokens": 1,
        },
    },
}
STOP = {"type": "message_stop"}


def delta(reason: str, tokens: int = 9) -> dict[str, Any]:
    usage = {"output_tokens": tokens, "output_tokens_details": {"thinking_tokens": 4}}
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": one} for one in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return block(
        index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": one} for one in pieces)
    )


def tool(index: int, id: str, *pieces: str, name: str = "add") -> list[dict[str, Any]]:
    start = {"type": "tool_use", "id": id, "name": name, "input": {}}
    return block(index, start, *({"type": "input_json_delta", "partial_json": one} for one in pieces))
