"""The catalog as LangChain tools, for its agents and for LangGraph.

::

    agent = create_agent(model, tools=tools(Client("http://127.0.0.1:8484"), tags=["math"]))

Where a person has to approve a call, the graph is interrupted as LangChain's own human-in-the-loop middleware
interrupts it, and goes on with the same answer: ``Command(resume={"decisions": [{"type": "approve"}]})``.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from langchain_core.tools import BaseTool, ToolException
from pydantic import PrivateAttr

from enginehost.errors import EngineHostError
from enginehost.integrations.content import Shown
from enginehost.integrations.facts import NEEDS_APPROVAL, Facts, Offer, explained
from enginehost.integrations.source import Way, arun, run, way_to

if TYPE_CHECKING:
    from enginehost import Caller

Content = tuple[Any, Any]
_MAY = ["approve", "edit", "reject"]


class EngineHostTool(BaseTool):
    """A function of a host. The artifact of its messages is the result itself."""

    response_format: Any = "content_and_artifact"
    handle_tool_error: Any = True
    _way: Way = PrivateAttr()

    def __init__(self, way: Way, offer: Offer) -> None:
        super().__init__(name=offer.name, description=offer.description, args_schema=offer.schema)
        self._way = way

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[Any, dict[str, Any]]:
        # as one object: a parameter may have any name, also one that LangChain takes for its own
        given = self._parse_input(tool_input, tool_call_id)
        return (dict(given) if isinstance(given, Mapping) else given,), {}

    def _run(self, arguments: dict[str, Any]) -> Content:
        try:
            facts = self._way.facts(self.name)
            arguments = _approved(self.name, arguments, facts)
            return _content(run(self._way, self.name, arguments, facts))
        except EngineHostError as error:
            raise ToolException(explained(error)) from error

    async def _arun(self, arguments: dict[str, Any]) -> Content:
        try:
            facts = await self._way.afacts(self.name)
            arguments = _approved(self.name, arguments, facts)
            return _content(await arun(self._way, self.name, arguments, facts))
        except EngineHostError as error:
            raise ToolException(explained(error)) from error


def tools(
    source: Any,
    *,
    tags: Iterable[str] = (),
    query: str = "",
    most: int | None = None,
    caller: Caller | None = None,
) -> list[BaseTool]:
    """The functions of ``source`` that may be called, as tools.

    Those that have one of ``tags``, the best for ``query`` first, at most ``most``; ``caller`` is on whose
    behalf a host in this process is called. Raises the host's errors.
    """
    way = way_to(source, caller)
    return [EngineHostTool(way, offer) for offer in way.offers(tags, query, most)]


async def atools(
    source: Any,
    *,
    tags: Iterable[str] = (),
    query: str = "",
    most: int | None = None,
    caller: Caller | None = None,
) -> list[BaseTool]:
    """:func:`tools`, awaited."""
    way = way_to(source, caller)
    return [EngineHostTool(way, offer) for offer in await way.aoffers(tags, query, most)]


def _content(result: Shown) -> Content:
    images = [
        {"type": "image", "base64": b64encode(blob.data).decode(), "mime_type": blob.media_type}
        for blob in result.blobs
        if blob.is_image
    ]
    return [{"type": "text", "text": result.text}, *images] if images else result.text, result.value


def _approved(name: str, arguments: dict[str, Any], facts: Facts) -> dict[str, Any]:
    """The arguments with which a call may run. Raises ``ToolException`` where it may not."""
    if not facts.needs_person:
        return arguments
    asked = {
        "action_requests": [{"name": name, "args": arguments, "description": f"{name} has to be approved"}],
        "review_configs": [{"action_name": name, "allowed_decisions": _MAY}],
    }
    try:
        from langgraph.types import interrupt

        said: Any = interrupt(asked)
    except (ImportError, KeyError, RuntimeError):  # no LangGraph, or not inside a graph that can wait
        raise ToolException(
            f"{name} was not called: {NEEDS_APPROVAL}; run it in a LangGraph graph with a checkpointer"
        ) from None
    return _decided(name, arguments, said)


def _decided(name: str, arguments: dict[str, Any], said: Any) -> dict[str, Any]:
    decisions = cast("Mapping[str, Any]", said).get("decisions") if isinstance(said, Mapping) else None
    decision: Any = decisions[0] if isinstance(decisions, list) and len(decisions) == 1 else None
    match decision:
        case {"type": "approve"}:
            return arguments
        case {"type": "edit", "edited_action": {"args": dict(edited)}}:
            return cast("dict[str, Any]", edited)
        case {"type": "reject"}:
            reason = cast("Mapping[str, Any]", decision).get("message") or "no reason was given"
            raise ToolException(f"{name} was not called: a person refused it: {reason}")
        case _:
            raise ToolException(f"{name} was not called: the answer holds no decision on it")
