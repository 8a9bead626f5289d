"""The catalog as tools of Pydantic AI.

::

    agent = Agent(model, tools=tools(Client("http://127.0.0.1:8484"), tags=["math"]))

Where a person has to approve a call, the run ends with ``DeferredToolRequests`` (name it in ``output_type``),
and goes on with ``DeferredToolResults``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic_ai import ApprovalRequired, BinaryContent, RunContext, Tool
from pydantic_ai.exceptions import ToolFailed

from enginehost.errors import EngineHostError
from enginehost.integrations.content import Shown
from enginehost.integrations.facts import Offer, explained
from enginehost.integrations.source import Way, arun, way_to

if TYPE_CHECKING:
    from enginehost import Caller


def tools(
    source: Any,
    *,
    tags: Iterable[str] = (),
    query: str = "",
    most: int | None = None,
    caller: Caller | None = None,
) -> list[Tool[Any]]:
    """The functions of ``source`` that may be called, as tools.

    Those that have one of ``tags``, the best for ``query`` first, at most ``most``; ``caller`` is on whose
    behalf a host in this process is called. Raises the host's errors.
    """
    way = way_to(source, caller)
    return [_tool(way, offer) for offer in way.offers(tags, query, most)]


async def atools(
    source: Any,
    *,
    tags: Iterable[str] = (),
    query: str = "",
    most: int | None = None,
    caller: Caller | None = None,
) -> list[Tool[Any]]:
    """:func:`tools`, awaited."""
    way = way_to(source, caller)
    return [_tool(way, offer) for offer in await way.aoffers(tags, query, most)]


def _tool(way: Way, offer: Offer) -> Tool[Any]:
    async def run(context: RunContext[Any], /, **arguments: Any) -> Any:
        try:
            facts = await way.afacts(offer.name)
            if facts.needs_person and not context.tool_call_approved:
                raise ApprovalRequired(metadata={"reason": f"{offer.name} has to be approved"})
            return _returned(await arun(way, offer.name, arguments, facts))
        except EngineHostError as error:
            raise ToolFailed(explained(error)) from error

    return Tool[Any].from_schema(run, offer.name, offer.description, offer.schema, takes_ctx=True)


def _returned(result: Shown) -> Any:
    files = [
        BinaryContent(blob.data, media_type=blob.media_type, identifier=blob.name)
        for blob in result.blobs
        if blob.readable
    ]
    return [result.text, *files] if files else result.plain
