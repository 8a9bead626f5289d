"""A server that speaks OpenAI's API and follows a script, and the plugin that talks to it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from enginehost.testing.wire import Reply, Seen

PLUGIN = Path(__file__).parents[3] / "plugins" / "enginehost-openai"

Script = Callable[[str, list[str]], dict[str, Any]]
"""What a model says to the last message, with the names of its tools: ``say(…)`` or ``call(…)``."""


def say(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}


def follows(script: Script) -> Callable[[Seen], Reply]:
    def react(seen: Seen) -> Reply:
        body = seen.json()
        last = body["messages"][-1]
        tools = [one["function"]["name"] for one in body.get("tools", ())]
        if last["role"] == "tool":
            delta = say(f"It is {last['content']}.")
        else:
            delta = script(_text(last["content"]), tools)
        finish = "tool_calls" if "tool_calls" in delta else "stop"
        data = _event(delta) + _event({}, finish) + b"data: [DONE]\n\n"
        return Reply([data], headers={"content-type": "text/event-stream"})

    return react


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _event(delta: Any, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def installed(site: Path) -> str:
    """The plugin as if it were installed: what to put before ``PYTHONPATH``."""
    about = site / "enginehost_openai-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: enginehost-openai\nVersion: 0.1.0\n")
    entry = "[enginehost.models]\nOpenAI = enginehost_openai.engine:OpenAiEngine\n"
    (about / "entry_points.txt").write_text(entry)
    return os.pathsep.join([str(site), str(PLUGIN / "src")])
