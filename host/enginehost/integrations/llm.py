"""The catalog as tools of ``llm``, and its plugin.

::

    model.chain("What is 2 + 40?", tools=tools(Client("http://127.0.0.1:8484"), tags=["math"]))

With the distribution installed beside ``llm``, its command line has them too: ``llm -T EngineHost "What is
2 + 40?"`` asks the host of ``ENGINEHOST_URL`` with the token of ``ENGINEHOST_TOKEN``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import llm

from enginehost.client import Client
from enginehost.errors import WaitsForPerson
from enginehost.integrations.content import Shown
from enginehost.integrations.facts import NEEDS_APPROVAL, Facts, Offer
from enginehost.integrations.source import Way, arun, run, way_to

if TYPE_CHECKING:
    from enginehost import Caller

Approve = Callable[[str, dict[str, Any]], bool]
"""Asks a person about a call by its tool's name and its arguments. It may raise ``llm.PauseChain``."""


def tools(
    source: Any,
    *,
    tags: Iterable[str] = (),
    query: str = "",
    most: int | None = None,
    caller: Caller | None = None,
    approve: Approve | None = None,
) -> list[llm.Tool]:
    """The functions of ``source`` that may be called, as tools.

    Those that have one of ``tags``, the best for ``query`` first, at most ``most``; ``caller`` is on whose
    behalf a host in this process is called. ``approve`` decides on calls that a person has to approve;
    without it the model is told that they cannot be made. Raises the host's errors.
    """
    way = way_to(source, caller)
    return [_tool(way, offer, approve) for offer in way.offers(tags, query, most)]


async def atools(
    source: Any,
    *,
    tags: Iterable[str] = (),
    query: str = "",
    most: int | None = None,
    caller: Caller | None = None,
    approve: Approve | None = None,
) -> list[llm.Tool]:
    """:func:`tools` for models that are awaited."""
    way = way_to(source, caller)
    return [_awaited(way, offer, approve) for offer in await way.aoffers(tags, query, most)]


class EngineHost(llm.Toolbox):
    """The functions of a host, as tools.

    ``url`` defaults to ``ENGINEHOST_URL``; ``tags`` are separated by commas. The token is that of
    ``ENGINEHOST_TOKEN``: ``llm`` writes what a toolbox is given to its log.
    """

    def __init__(self, url: str = "", tags: str = "", query: str = "", most: int | None = None) -> None:
        self._client = Client(url or None)
        self._found: list[llm.Tool] = []
        self._chosen = [tag for tag in tags.split(",") if tag], query, most

    def tools(self) -> Iterable[llm.Tool]:
        """The tools; the host is asked for them the first time."""
        if not self._found:
            self.prepare()
        return self._found

    def prepare(self) -> None:
        """Ask the host for the tools."""
        tags, query, most = self._chosen
        self._found = tools(self._client, tags=tags, query=query, most=most)

    async def prepare_async(self) -> None:
        """The same for models that are awaited: await it before the toolbox is given to one."""
        tags, query, most = self._chosen
        self._found = await atools(self._client, tags=tags, query=query, most=most)


@llm.hookimpl
def register_tools(register: Callable[[Any], None]) -> None:
    """The plugin of ``llm``."""
    register(EngineHost)


def _tool(way: Way, offer: Offer, approve: Approve | None) -> llm.Tool:
    def implementation(**arguments: Any) -> llm.ToolOutput:
        facts = way.facts(offer.name)
        _check(offer.name, arguments, facts, approve)
        return _output(run(way, offer.name, arguments, facts))

    return _made(offer, implementation)


def _awaited(way: Way, offer: Offer, approve: Approve | None) -> llm.Tool:
    async def implementation(**arguments: Any) -> llm.ToolOutput:
        facts = await way.afacts(offer.name)
        _check(offer.name, arguments, facts, approve)
        return _output(await arun(way, offer.name, arguments, facts))

    return _made(offer, implementation)


def _made(offer: Offer, implementation: Callable[..., Any]) -> llm.Tool:
    return llm.Tool(
        name=offer.name,
        description=offer.description,
        input_schema=offer.schema,
        implementation=implementation,
        plugin="enginehost",
    )


def _check(name: str, arguments: dict[str, Any], facts: Facts, approve: Approve | None) -> None:
    if not facts.needs_person:
        return
    if approve is None:
        raise WaitsForPerson(f"{name} was not called: {NEEDS_APPROVAL}")
    if not approve(name, arguments):
        raise WaitsForPerson(f"{name} was not called: a person refused it")


def _output(result: Shown) -> llm.ToolOutput:
    files = [
        llm.Attachment(type=blob.media_type, content=blob.data) for blob in result.blobs if blob.readable
    ]
    return llm.ToolOutput(output=result.text, attachments=files)
