"""``tools/list`` and ``tools/call``: the hot paths."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import orjson

from enginehost.admission import as_told
from enginehost.agents.agent_engine import agent_behind
from enginehost.agents.chain import DECISION
from enginehost.caller import Caller
from enginehost.catalog import Entry
from enginehost.engine import Call
from enginehost.errors import EngineHostError, Forbidden, TooLarge, UnknownFunction, WaitsForPerson
from enginehost.serve.for_models import for_model
from enginehost.serve.mcp.asking import Asking, approval_of, needs_approval
from enginehost.serve.mcp.messages import Request
from enginehost.serve.mcp.mirrored import check_mirrored
from enginehost.serve.mcp.paging import cursor_in, page_of
from enginehost.serve.mcp.peer import Peer
from enginehost.serve.mcp.results import Shape, failed
from enginehost.serve.mcp.telling import Teller
from enginehost.serve.mcp.waiting import as_asked, decisions_in
from enginehost.serve.mcp.wire import INVALID_PARAMS, Fault
from enginehost.signature import FunctionSignature
from enginehost.trace_context import read_trace
from enginehost.validation import Validator, check_arguments, closed

if TYPE_CHECKING:
    from enginehost.host import Host

MOST_LISTS = 64
"""Lists that are kept: one for each set of rights and tags."""
FRESH_MS = 5_000
"""For how long a client may use a list again without asking (``ttlMs``)."""
FRESH = b'{"ttlMs":%d,"cacheScope":"private",' % FRESH_MS
"""How a list begins that depends on who asks."""

_UNKNOWN = Shape(FunctionSignature(""))


class _List:
    """The tools of one reader: names, for cursors, and the JSON of pages as they are asked for."""

    def __init__(self, entries: list[Entry], specs: list[dict[str, Any]]) -> None:
        tools = [
            (entry.name, spec) for entry, spec in zip(entries, specs, strict=True) if not entry.signature.mcp
        ]
        self._names = [name for name, _ in tools]
        self._specs = [spec for _, spec in tools]
        self._pages: dict[str, bytes] = {}

    def page(self, cursor: str) -> bytes:
        found = self._pages.get(cursor)
        if found is None:
            found = self._pages[cursor] = page_of("tools", self._names, self._specs, cursor)
            if len(self._pages) > MOST_LISTS:
                self._pages.pop(next(iter(self._pages)))
        return found


class Tools:
    """The functions of a host as tools."""

    def __init__(self, host: Host, asking: Asking) -> None:
        self._host, self._asking = host, asking
        self._version = -1
        self._lists: OrderedDict[Any, _List] = OrderedDict()
        self._shapes: dict[str, Shape] = {}

    def list(self, peer: Peer, params: Mapping[str, Any]) -> bytes:
        """The ``ListToolsResult``, sorted by the functions' names. Raises :class:`Fault`."""
        page = self._listed(peer).page(cursor_in(params))
        return (FRESH if peer.modern else b"{") + page

    def _listed(self, peer: Peer) -> _List:
        self._follow()
        caller = peer.caller
        rights = caller.subject, caller.tenant, caller.scopes, caller.authenticated, caller.agent
        key = (rights, peer.tags, id(self._host.policy))
        found = self._lists.get(key)
        if found is None:
            entries = self._host.functions(caller, peer.tags)
            found = self._lists[key] = _List(entries, self._host.tools("mcp", caller=caller, tags=peer.tags))
            if len(self._lists) > MOST_LISTS:
                self._lists.popitem(last=False)
        else:
            self._lists.move_to_end(key)
        return found

    def _follow(self) -> None:
        if self._version != self._host.catalog.version:
            self._version = self._host.catalog.version
            self._lists.clear()
            self._shapes.clear()

    async def call(self, peer: Peer, request: Request) -> bytes:
        """The ``CallToolResult``: also of a call that failed, where a model can do something about it.

        Raises :class:`Fault` for a request that is none, and the host's errors for the others.
        """
        params = request.params
        shown: Any = params.get("name")
        if not isinstance(shown, str) or not shown:
            raise Fault(INVALID_PARAMS, "name must be the name of a tool")
        arguments: Any = params.get("arguments")
        if arguments is None:
            arguments = {}
        elif not isinstance(arguments, dict):
            raise Fault(INVALID_PARAMS, "arguments must be an object")
        host = self._host
        name = host.resolve(shown, kind="mcp", caller=peer.caller)
        try:
            entry = host.visible(name, peer.caller)
            if entry is not None and (
                entry.signature.mcp or (peer.tags and peer.tags.isdisjoint(entry.signature.tags))
            ):
                raise UnknownFunction(shown)
            shape = self._shape(name)
            if shape.mirrored and peer.headers is not None:
                check_mirrored(shape.mirrored, arguments, peer.headers)
            asks = needs_approval(entry.function) if entry is not None else False
            if not asks and not peer.capabilities:
                return await self._run(peer, request, name, entry, arguments, None)

            async def work(answers: Mapping[str, Any] | None) -> bytes:
                if entry is not None and agent_behind(entry.record.engine) is not None:
                    return await self._ask_agent(peer, request, entry, arguments, answers)
                return await self._run(peer, request, name, entry, arguments, answers)

            approval = approval_of(shown, arguments) if asks else None
            if approval is not None and entry is not None:
                self._worth_asking(peer.caller, entry, arguments)
            return await self._asking.run(peer, request, [name, arguments], work, approval)
        except EngineHostError as error:
            asked: Any = error.detail.get("ask")
            if asked and not peer.capabilities:
                return await self._asked_too_much(peer, request, error, asked, (name, shown), arguments)
            return _told(host, peer.caller, error, (name, shown), arguments)

    def _worth_asking(self, caller: Caller, entry: Entry, arguments: dict[str, Any]) -> None:
        """Refuse what could not run anyway, before a person is asked whether it may."""
        if not self._host.policy.may_call(caller, entry.signature):
            raise Forbidden(f"{caller.subject} may not call {entry.name}")
        if not entry.function.coerce_text:
            validator = Validator(closed(entry.signature.parameters))
            check_arguments(entry.name, validator, arguments)

    async def _asked_too_much(
        self,
        peer: Peer,
        request: Request,
        error: EngineHostError,
        asked: Any,
        names: tuple[str, str],
        sent: dict[str, Any],
    ) -> bytes:
        """Answer for a function that asks a client which cannot be asked anything."""

        async def again(_: Mapping[str, Any] | None) -> bytes:
            raise error

        try:
            return await self._asking.run(peer, request, None, again)
        except EngineHostError as told:
            return _told(self._host, peer.caller, told, names, sent)

    async def _ask_agent(
        self,
        peer: Peer,
        request: Request,
        entry: Entry,
        arguments: dict[str, Any],
        answers: Mapping[str, Any] | None,
    ) -> bytes:
        """A turn of an agent; where it waited for a person, what it says to their decisions."""
        conversation, decided = decisions_in(answers)
        found = b""
        try:
            for decision in decided:
                deciding = DECISION.set(decision)
                try:
                    given = {**arguments, "conversation_id": conversation}
                    found = await self._run(peer, request, entry.name, entry, given, None)
                finally:
                    DECISION.reset(deciding)
            return found or await self._run(peer, request, entry.name, entry, arguments, answers)
        except WaitsForPerson as error:
            raise (as_asked(error) if "elicitation" in peer.asks else error) from None

    async def _run(
        self,
        peer: Peer,
        request: Request,
        name: str,
        entry: Entry | None,
        arguments: dict[str, Any],
        answers: Mapping[str, Any] | None,
    ) -> bytes:
        host, meta = self._host, request.meta
        arrived = read_trace(str(meta.get("traceparent", "")), str(meta.get("tracestate", "")))
        call = host.new_call(name, peer.caller, arrived)
        call.authorization = peer.authorization
        if peer.capabilities:
            call.asks, call.answers = peer.asks, answers
        token = request.progress_token
        if peer.notify is None or (token is None and not peer.level):
            return self._shape(name).result(await host.call_json(call, arguments))
        call.tell = teller = Teller(peer.notify, token, peer.level)
        try:
            if entry is not None and entry.signature.streaming and token is not None:
                found = await self._streamed(call, arguments, teller)
            else:
                found = await host.call_json(call, arguments)
        except BaseException as error:
            if isinstance(error, EngineHostError):
                await teller.end()
            else:
                teller.drop()
            raise
        await teller.end()
        return self._shape(name).result(found)

    def _shape(self, name: str) -> Shape:
        self._follow()
        shape = self._shapes.get(name)
        if shape is None:
            entry = self._host.catalog.get(name)
            shape = Shape(entry.signature) if entry is not None else _UNKNOWN
            self._shapes[name] = shape
        return shape

    async def _streamed(self, call: Call, arguments: dict[str, Any], teller: Teller) -> bytes:
        """The items of a stream as one array; each is told as progress when it comes."""
        items: list[bytes] = []
        size, most = 0, int(self._host.settings.max_result_bytes)
        async with aclosing(self._host.stream_json(call, arguments)) as stream:
            async for item in stream:
                items.append(item)
                size += len(item) + 1
                if size > most:
                    raise TooLarge(f"the result of {call.function}", limit=most)
                said: Any = orjson.loads(item) if item.startswith(b'"') else item.decode()
                teller({"progress": len(items), "message": said})
        return b"[%b]" % b",".join(items)


def _told(
    host: Host, caller: Caller, error: EngineHostError, names: tuple[str, str], sent: dict[str, Any]
) -> bytes:
    told = for_model(host, as_told(error, caller), "mcp", names, sent)
    if told.row.mcp_tool_error:
        return failed(told)
    raise told
