"""The engine of ``ENGINE_CLASS = Anthropic``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any

from enginehost.engine import EngineContext
from enginehost.errors import ExecutionFailed
from enginehost.llm.body import members, spooled, written
from enginehost.llm.exchange import LENGTH_REQUIRED, answered, json_object, raw_chunks
from enginehost.llm.http_engine import HttpModelEngine
from enginehost.llm.message import Message
from enginehost.llm.model import ModelRequest, Rows
from enginehost.llm.sse import cut_off, events, loads
from enginehost_anthropic.answer import Answer
from enginehost_anthropic.config import AnthropicConfig
from enginehost_anthropic.request import head_of
from enginehost_anthropic.rows import Rows as RowWriter

if TYPE_CHECKING:
    import httpx2

_MOST_PAGES = 20
"""Pages of the list of models that are asked for."""


class AnthropicModel(HttpModelEngine):
    """One account of the Messages API with a default model."""

    config_model = AnthropicConfig
    config: AnthropicConfig

    def __init__(self, context: EngineContext, config: AnthropicConfig) -> None:
        super().__init__(context, config)
        self._spools = config.spool_body

    async def open(self) -> None:
        """Make the client; nothing is asked of the API."""
        headers = {"anthropic-version": self.config.api_version, "content-type": "application/json"}
        if self.config.api_key is not None:
            headers["x-api-key"] = self.config.api_key.get_secret_value().strip()
            self.context.conceal(headers["x-api-key"])
        if self.config.auth_token is not None:
            token = self.config.auth_token.get_secret_value().strip()
            headers["authorization"] = f"Bearer {token}"
            self.context.conceal(token)
        self.connect(headers | self.config.headers)

    async def models(self) -> Sequence[str]:
        """The ids that the API lists, newest first."""
        found: list[str] = []
        after = ""
        for _ in range(_MOST_PAGES):
            page = await self._page(after)
            found += [str(one["id"]) for one in page.get("data") or ()]
            after = str(page.get("last_id") or "")
            if not page.get("has_more") or not after:
                break
        return found

    async def stream(self, rows: Rows, request: ModelRequest) -> AsyncGenerator[Message, None]:
        """The answer."""
        head, structured = head_of(request, self.config)
        answer = Answer(self.who, request.model, structured)
        async with AsyncExitStack() as stack:
            response = await self._sent(stack, b"{" + members(head) + b",", rows, request)
            chunks = await stack.enter_async_context(aclosing(raw_chunks(response, self.who)))
            async for batch in events(chunks):
                for data in batch:
                    for message in answer.take(loads(data)):
                        yield message
                if answer.ended:
                    return
        raise cut_off()

    async def _sent(
        self, stack: AsyncExitStack, head: bytes, rows: Rows, request: ModelRequest
    ) -> httpx2.Response:
        """The answer to the body; to the body with its length before it, where the server wants that."""
        try:
            return await self._sent_once(stack, head, rows, request)
        except ExecutionFailed as error:
            if self._spools or error.detail.get("status") != LENGTH_REQUIRED:
                raise
        self._spools = True
        return await self._sent_once(stack, head, rows, request)

    async def _sent_once(
        self, stack: AsyncExitStack, head: bytes, rows: Rows, request: ModelRequest
    ) -> httpx2.Response:
        body = written(head, rows, RowWriter(request), b"}")
        await stack.enter_async_context(aclosing(body))
        headers: dict[str, str] = {}
        content: AsyncIterable[bytes] = body
        if self._spools:
            file = await stack.enter_async_context(spooled(body))
            headers["content-length"] = str(file.size)
            content = file.chunks()
        asked = self._request("POST", "/v1/messages", request.timeout, content=content, headers=headers)
        return await stack.enter_async_context(answered(self.client, self.who, asked))

    async def _page(self, after: str) -> dict[str, Any]:
        params = {"limit": "1000"} | ({"after_id": after} if after else {})
        asked = self._request("GET", "/v1/models", None, params=params)
        async with answered(self.client, self.who, asked) as response:
            return await json_object(raw_chunks(response, self.who))

    def _request(self, method: str, path: str, timeout: float | None, **more: Any) -> httpx2.Request:
        return self.request(method, self.config.endpoint + path, timeout, **more)
