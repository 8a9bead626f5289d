"""The catalog as tools of the OpenAI Agents SDK.

::

    agent = Agent("helper", tools=tools(Client("http://127.0.0.1:8484"), tags=["math"]))

Where a person has to approve a call, the run is interrupted: decide with ``state.approve(item)`` and run on.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agents import FunctionTool, ToolOutputFileContent, ToolOutputImage, ToolOutputText

from enginehost.errors import EngineHostError, InvalidRequest
from enginehost.integrations.content import Blob, Shown
from enginehost.integrations.facts import Offer, explained
from enginehost.integrations.source import Way, arun, way_to
from enginehost.values import MalformedJson, read

if TYPE_CHECKING:
    from enginehost import Caller


def tools(
    source: Any,
    *,
    tags: Iterable[str] = (),
    query: str = "",
    most: int | None = None,
    caller: Caller | None = None,
) -> list[FunctionTool]:
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
) -> list[FunctionTool]:
    """:func:`tools`, awaited."""
    way = way_to(source, caller)
    return [_tool(way, offer) for offer in await way.aoffers(tags, query, most)]


def _tool(way: Way, offer: Offer) -> FunctionTool:
    async def invoke(context: Any, arguments: str) -> Any:
        try:
            facts = await way.afacts(offer.name)
            # a function that asks only since the model called it is not called
            decided = context.is_tool_approved(offer.name, context.tool_call_id) is True
            known = facts if decided or not facts.needs_person else None
            return _output(await arun(way, offer.name, _object(arguments), known))
        except EngineHostError as error:
            return explained(error)

    async def needs_approval(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
        try:
            return (await way.afacts(offer.name)).needs_person
        except EngineHostError:
            return True  # nobody knows: better asked than not

    return FunctionTool(
        name=offer.name,
        description=offer.description,
        params_json_schema=offer.schema,
        on_invoke_tool=invoke,
        strict_json_schema=False,
        needs_approval=needs_approval,
    )


def _object(arguments: str) -> dict[str, Any]:
    try:
        found = read(arguments.encode()) if arguments else {}
    except MalformedJson as error:
        raise InvalidRequest(f"the arguments are no JSON: {error.message}") from None
    if not isinstance(found, dict):
        raise InvalidRequest("the arguments must be an object")
    return found  # pyright: ignore[reportUnknownVariableType]


def _output(result: Shown) -> Any:
    files = [_file(blob) for blob in result.blobs if blob.readable]
    return [ToolOutputText(text=result.text), *files] if files else result.text


def _file(blob: Blob) -> ToolOutputImage | ToolOutputFileContent:
    data = f"data:{blob.media_type};base64,{b64encode(blob.data).decode()}"
    if blob.is_image:
        return ToolOutputImage(image_url=data)
    return ToolOutputFileContent(file_data=data, filename=f"{blob.name}.{blob.media_type.partition('/')[2]}")
