"""Running one tool: the JSON text of its result, in pieces as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any

from enginehost.agents.chain import trace_for_calls
from enginehost.agents.contract import Tool, Turn
from enginehost.agents.identity import asking
from enginehost.agents.offers import check, needs_person
from enginehost.agents.options import IMPORTED
from enginehost.agents.port import AgentHost
from enginehost.agents.rows import failure_text
from enginehost.call import CURRENT
from enginehost.caller import Caller
from enginehost.engine import Call, RunMode
from enginehost.errors import CallTimeout, EngineHostError, ExecutionFailed, Forbidden, UnknownFunction
from enginehost.llm.message import Message
from enginehost.safe_text import explain
from enginehost.values import encode

OWN_TIMEOUT = 60.0
"""Seconds that a tool of an agent's own may take, where its limits say nothing."""


async def run_tool(
    host: AgentHost, tool: Tool, args: dict[str, Any], caller: Caller
) -> AsyncGenerator[str, None]:
    """The result as JSON text: whole, or of a streaming function an array piece by piece.

    A function of the catalog is called as any caller calls it: policy, limits, schema, deadline, record.
    """
    call = host.new_call(tool.name, caller, trace_for_calls())
    if not tool.function.mode.streams:
        yield (await (_own(tool, args, call) if tool.own else host.call_json(call, args))).decode()
        return
    between = "["
    items = _own_items(tool, args, call) if tool.own else host.stream_json(call, args)
    try:
        async for item in items:
            yield between + item.decode()
            between = ","
    except EngineHostError as error:
        if between == "[":
            raise
        yield f",{encode({'error': error.to_json()}).decode()}]"  # what came stays, and is JSON
        raise Partly(error) from error
    finally:
        await items.aclose()
    yield "[]" if between == "[" else "]"


async def lazy_result(host: AgentHost, turn: Turn, row: Message) -> str:
    """Run the query that stands in place of a result; an error is a result too.

    It is called as the turn's caller, and only where the tool is still offered and read-only.
    """
    whole = row.query or {}
    lazy = whole.get("lazy")
    query: Mapping[str, Any] = lazy if isinstance(lazy, Mapping) else {}
    name, args = str(query.get("tool", "")), query.get("args") or {}
    tool = turn.offered.get(name)
    most, parts, size = turn.spec.limits.result_chars, list[str](), 0
    try:
        if tool is None or tool.agent or tool.function.signature.annotations.read_only is not True:
            raise UnknownFunction(name)
        if whole.get(IMPORTED) and needs_person(tool, turn.spec):
            raise Forbidden(f"{name} runs when a person has approved it; nobody here has approved this call")
        asker = asking(turn.caller, turn.spec.name)
        async with aclosing(run_tool(host, tool, check(tool, args), asker)) as pieces:
            async for piece in pieces:
                parts.append(piece)
                size += len(piece)
                if most is not None and size > most:
                    break
        return "".join(parts)
    except Partly:
        return "".join(parts)
    except EngineHostError as error:
        return failure_text(error)


class Partly(Exception):
    """A streaming function failed after its first items; the text has them and the error."""

    def __init__(self, error: EngineHostError) -> None:
        super().__init__(error.message)
        self.error = error


async def _own(tool: Tool, args: dict[str, Any], call: Call) -> bytes:
    """A tool of the agent's own: trusted code of this process, under a deadline."""
    seconds = tool.function.limits.timeout or OWN_TIMEOUT
    token = CURRENT.set(call)
    try:
        async with asyncio.timeout(seconds):
            if tool.function.mode is RunMode.SYNC:
                result = await asyncio.to_thread(tool.function.run, args, call)
            else:
                result = await tool.function.run(args, call)
        return encode(result, allow_nan=True)
    except TimeoutError:
        raise CallTimeout(tool.name, seconds) from None
    except Exception as error:
        raise _told(tool, error) from error
    finally:
        CURRENT.reset(token)


async def _own_items(tool: Tool, args: dict[str, Any], call: Call) -> AsyncGenerator[bytes, None]:
    seconds = tool.function.limits.timeout or OWN_TIMEOUT
    made = tool.function.run(args, call)
    iterator = _on_threads(iter(made)) if tool.function.mode is RunMode.SYNC_STREAM else made
    try:
        while True:
            async with asyncio.timeout(seconds):
                item = await anext(iterator)
            yield encode(item, allow_nan=True)
    except StopAsyncIteration:
        return
    except TimeoutError:
        raise CallTimeout(tool.name, seconds) from None
    except Exception as error:
        raise _told(tool, error) from error
    finally:
        await iterator.aclose()


async def _on_threads(items: Iterator[Any]) -> AsyncGenerator[Any, None]:
    end = object()
    while (item := await asyncio.to_thread(next, items, end)) is not end:
        yield item


def _told(tool: Tool, error: Exception) -> EngineHostError:
    if isinstance(error, EngineHostError):
        return error
    return ExecutionFailed(
        f"{tool.name} failed: {explain(error, str)}", detail={"type": type(error).__name__}
    )
