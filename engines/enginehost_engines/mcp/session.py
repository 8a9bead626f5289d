"""One session with a server, on the SDK's client. Imported when the first engine opens: it takes a second."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, cast

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

import enginehost
from enginehost.engine import Call
from enginehost.errors import (
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    OutcomeUnknown,
    ResultInvalid,
    TooLarge,
)
from enginehost_engines.mcp import http, stdio
from enginehost_engines.mcp.allowance import Allowance
from enginehost_engines.mcp.config import McpConfig
from enginehost_engines.mcp.process import ServerProcess, environment
from enginehost_engines.mcp.results import one_line, value_of
from enginehost_engines.mcp.tools import MOST_TOOLS, Tool
from enginehost_engines.mcp.watched import Watched

MOST_PAGES = 1000
LIST_SECONDS = 30.0
"""How long a page of tools/list may take; it is also how a server is asked whether it is still there."""

NEWS_SECONDS = 0.2
"""The least time between two looks at the list of a server that says it changes all the time."""

MOST_PROGRESS = 100
"""Progress messages of one call that are logged."""

_ANSWER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO, "warning": logging.WARNING}
_INFO = types.Implementation(name="enginehost", version=enginehost.__version__)


class Lost(Exception):
    """The session is over; the text says why, for people."""


class Session:
    """A session that stands. ``tools`` are those of the last look; ``called`` the calls on their way."""

    def __init__(
        self, client: Client, limit: int, log: logging.Logger, called: set[asyncio.Task[Any]]
    ) -> None:
        self._client = client
        self._limit = limit
        self._log = log
        self.tools: list[Tool] = []
        self.misfits: list[str] = []
        """What is to be said of tools that are none."""
        self._changed = asyncio.Event()
        self._doubted = asyncio.Event()
        self.called = called

    def look_again(self) -> None:
        """The server says that its tools changed."""
        self._changed.set()

    def doubt(self) -> None:
        """Something says that the server may be gone: ask it."""
        self._doubted.set()

    async def look(self) -> None:
        """Ask which tools there are, page by page. Raises :class:`Lost`."""
        found: list[Tool] = []
        self.misfits = []
        cursors: set[str] = set()
        cursor: str | None = None
        try:
            for _ in range(MOST_PAGES):
                page = await self._page(cursor)
                found += [_tool(one) for one in page.tools]
                cursor = page.next_cursor
                if cursor is None or cursor in cursors or len(found) > MOST_TOOLS:
                    break
                cursors.add(cursor)
        except (MCPError, ValidationError, RuntimeError) as error:
            raise Lost(f"the server does not tell its tools: {told(error)}") from error
        except TimeoutError as error:
            raise Lost(
                f"the server does not answer: it gave no list of tools in {LIST_SECONDS:g} s"
            ) from error
        self.tools = found

    def mend(self, result: dict[str, Any]) -> None:
        """Take out of a list of tools what is none: the SDK would refuse the list for a single one."""
        tools = result.get("tools")
        if not isinstance(tools, list) or self._fits(result) or not self._fits({**result, "tools": []}):
            return
        fitting = [one for one in cast("list[Any]", tools) if self._fits({**result, "tools": [one]})]
        if len(fitting) < len(cast("list[Any]", tools)):
            self.misfits.append(
                f"{len(cast('list[Any]', tools)) - len(fitting)} tools are none that MCP knows"
            )
            result["tools"] = fitting

    def _fits(self, result: dict[str, Any]) -> bool:
        try:
            methods.validate_server_result("tools/list", self._client.protocol_version, result)
            types.ListToolsResult.model_validate(result, by_name=False)
        except ValidationError:
            return False
        return True

    async def _page(self, cursor: str | None) -> types.ListToolsResult:
        """One page, in a task of its own: who gives up waits for no word to a server that reads nothing."""
        asking = self._client.list_tools(cursor=cursor, cache_mode="bypass")
        task = asyncio.create_task(asking, name="enginehost-mcp-list")
        self.called.add(task)
        task.add_done_callback(self.called.discard)
        try:
            done, _ = await asyncio.wait({task}, timeout=LIST_SECONDS)
        finally:
            if not task.done():
                self.abandon(task)
        if not done:
            raise TimeoutError
        if task.cancelled():
            raise Lost("the session is over")
        return task.result()

    async def follow(self, news: Callable[[], Awaitable[None]]) -> None:
        """Look again whenever the tools may have changed, until the session is over. Raises :class:`Lost`."""
        async with anyio.create_task_group() as tasks:
            if self._client.protocol_version in MODERN_PROTOCOL_VERSIONS and self._tells():
                tasks.start_soon(self._listen)
            tasks.start_soon(self._ask_when_in_doubt)
            while True:
                await self._changed.wait()
                self._changed.clear()
                begun = time.monotonic()
                await self.look()
                await news()
                await asyncio.sleep(max(NEWS_SECONDS, 2 * (time.monotonic() - begun)))

    def _tells(self) -> bool:
        tools = self._client.server_capabilities.tools
        return tools is not None and bool(tools.list_changed)

    async def _ask_when_in_doubt(self) -> None:
        while True:
            await self._doubted.wait()
            self._doubted.clear()
            await self.look()
            self.look_again()

    async def _listen(self) -> None:
        """Newer servers tell of changes on a stream of their own, which is opened again when it ends."""
        pause = 0.5
        while True:
            with suppress(MCPError, SubscriptionLost, TimeoutError):
                async with self._client.listen(tools_list_changed=True) as news:
                    pause = 0.5
                    async for _ in news:
                        self.look_again()
            await asyncio.sleep(pause)  # what changed meanwhile is told by nobody
            pause = min(2 * pause, 60.0)
            self.look_again()

    # calls

    def abandon(self, task: asyncio.Task[Any]) -> None:
        """Cancel a request for whose end nobody waits; the server is told, if it listens."""
        task.cancel()
        task.add_done_callback(_forget)

    async def call(self, tool: str, arguments: dict[str, Any], call: Call, *, has_schema: bool) -> Any:
        """The value that a tool answers with. Raises the errors of :mod:`enginehost.errors`."""
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=arguments))
        progress = _Progress(self._log, call.function)
        try:
            # not call_tool, which checks results with regular expressions of the server's own, and in Python
            answer = await self._sent(request, progress)
        except MCPError as error:
            raise self._failure(call.function, error) from error
        except (ValidationError, RuntimeError) as error:
            text = f"{call.function}: the server's answer is none that MCP knows"
            raise ResultInvalid(text) from error
        if not isinstance(answer, types.CallToolResult):
            text = f"{call.function} asks a person for something, which this host cannot pass on"
            raise ExecutionFailed(text, detail={"type": "InputRequired"})
        return value_of(call.function, answer, has_schema=has_schema)

    async def _sent(
        self, request: types.CallToolRequest, progress: _Progress
    ) -> types.CallToolResult | types.InputRequiredResult:
        send = self._client.session.send_request
        try:
            return await send(request, _ANSWER, progress_callback=progress)
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH:
                raise
            with suppress(Lost):  # the tool's schema, of which headers are made, has changed: once more
                await self.look()
            self.look_again()
            return await send(request, _ANSWER, progress_callback=progress)

    def _failure(self, name: str, error: MCPError) -> EngineHostError:
        text = one_line(error.message) or "no reason is given"
        match error.code:
            case types.CONNECTION_CLOSED | http.BROKEN_OFF | types.PARSE_ERROR:
                self.doubt()
                return OutcomeUnknown(
                    f"{name} may or may not have run: the server was lost before it answered"
                )
            case http.UNREACHABLE | http.SESSION_GONE:
                self.doubt()
                return EngineUnavailable(f"{name} did not run: the server was lost: {text}", reason=text)
            case stdio.TOO_LARGE:
                size = int(error.message) if error.message.isdigit() else None
                return TooLarge(f"the answer of {name}", limit=self._limit, size=size)
            case stdio.UNREADABLE:
                return ResultInvalid(f"{name}: the server's answer is no message of JSON-RPC")
            case _:
                if error.code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND):
                    self.look_again()  # perhaps the tool is gone, or asks for something else now
                return ExecutionFailed(f"{name}: {text}", detail={"type": "McpError", "jsonrpc": error.code})


class _Progress:
    """Tells the log how far a call is."""

    def __init__(self, log: logging.Logger, name: str) -> None:
        self._log, self._name, self._told = log, name, 0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self._told += 1
        if self._told <= MOST_PROGRESS:
            of = f" of {total:g}" if total is not None else ""
            words = f": {one_line(message, 500)}" if message else ""
            self._log.info("%s: progress %g%s%s", self._name, progress, of, words)


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _tool(one: types.Tool) -> Tool:
    hints = one.annotations or types.ToolAnnotations()
    return Tool(
        name=one.name,
        description=one.description or "",
        input_schema=one.input_schema,
        output_schema=one.output_schema,
        title=one.title or hints.title,
        read_only=hints.read_only_hint,
        destructive=hints.destructive_hint,
        idempotent=hints.idempotent_hint,
        open_world=hints.open_world_hint,
    )


def told(error: BaseException) -> str:
    """What to say of an error on the way to a session."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, EngineHostError | MCPError):
        return one_line(error.message, 500)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = "/".join(str(part) for part in first["loc"])
        return f"its answer is none that MCP knows (at {place[:100]}: {first['msg']})"
    return one_line(str(error), 500) or type(error).__name__


# the way to a session


@asynccontextmanager
async def connected(
    config: McpConfig,
    folder: Any,
    log: logging.Logger,
    *,
    older: bool,
    private_networks: bool,
    lost: Callable[[str], None],
    called: set[asyncio.Task[Any]],
) -> AsyncGenerator[Session]:
    """A session with the server of ``config``; ``lost`` hears why it is over, ``called`` gets its requests.

    ``older``: as servers expect it that know nothing of newer ways (the handshake at once; HTTP with SSE).
    """
    session: Session | None = None
    allowance = Allowance(log)

    def trouble() -> None:
        if session is not None:
            session.doubt()

    def passing(item: Any) -> None:
        if session is not None and isinstance(getattr(item, "message", None), types.JSONRPCResponse):
            session.mend(item.message.result)

    async def heard(message: Any) -> None:
        if session is not None and isinstance(message, types.ToolListChangedNotification):
            session.look_again()

    async def logged(params: types.LoggingMessageNotificationParams) -> None:
        allowance.tell(_LEVELS.get(str(params.level), logging.ERROR), one_line(str(params.data)))

    if config.mcp_command is not None:
        process = await ServerProcess.start(config.mcp_command, environment(config.mcp_env), folder, log)
        way: AbstractAsyncContextManager[Any] = stdio.stdio_transport(
            process, config.max_message_bytes, lost, log
        )
    else:
        headers = {name: str(value) for name, value in config.headers.items()} | dict(config.auth_headers())
        way = http.http_transport(
            config.mcp_url or "",
            headers,
            sse=older,
            limit=config.max_message_bytes,
            private_networks=private_networks,
            trouble=trouble,
        )
    mode = "legacy" if older else "auto"
    client = Client(
        Watched(way, passing, lost),
        mode=mode,
        client_info=_INFO,
        message_handler=heard,
        logging_callback=logged,
        cache=None,
    )
    async with client:
        session = Session(client, config.max_message_bytes, log, called)
        await session.look()
        yield session
