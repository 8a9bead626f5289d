"""The engine of ``ENGINE_CLASS = Anthropic``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any

import orjson

from enginehost.engine import EngineContext
from enginehost.errors import InvalidRequest
from enginehost.llm.body import members, spooled, written
from enginehost.llm.exchange import answered, make_client, raw_chunks, timeouts
from enginehost.llm.message import Message
from enginehost.llm.model import AbstractModelEngine, ModelRequest, Rows
from enginehost.llm.sse import cut_off, events, loads, malformed
from enginehost_anthropic.answer import Answer
from enginehost_anthropic.config import AnthropicConfig
from enginehost_anthropic.request import head_of
from enginehost_anthropic.rows import Rows as RowWriter

if TYPE_CHECKING:
    import httpx2

_MOST_PAGES = 20
"""Pages of the list of models that are asked for."""


class AnthropicModel(AbstractModelEngine):
    """One account of the Messages API with a default model."""

    config_model = AnthropicConfig
    config: AnthropicConfig

    def __init__(self, context: EngineContext, config: AnthropicConfig) -> None:
        super().__init__(context, config)
        self._who = context.display_name or context.alias or context.engine_id
        self._http: httpx2.AsyncClient | None = None

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
        self._http = make_client(self.context.access, headers | self.config.headers)

    async def close(self) -> None:
        """Close all connections."""
        if self._http is not None:
            http, self._http = self._http, None
            await http.aclose()

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
        answer = Answer(self._who, request.model, structured)
        async with AsyncExitStack() as stack:
            body = _body(head, rows, request)
            await stack.enter_async_context(aclosing(body))
            headers: dict[str, str] = {}
            content: AsyncIterable[bytes] = body
            if self.config.spool_body:
                file = await stack.enter_async_context(spooled(body))
                headers["content-length"] = str(file.size)
                content = file.chunks()
            asked = self._request("POST", "/v1/messages", request.timeout, content=content, headers=headers)
            response = await stack.enter_async_context(answered(self._client, self._who, asked))
            chunks = await stack.enter_async_context(aclosing(raw_chunks(response, self._who)))
            async for batch in events(chunks):
                for data in batch:
                    for message in answer.take(loads(data)):
                        yield message
                if answer.ended:
                    return
        raise cut_off()

    async def _page(self, after: str) -> dict[str, Any]:
        params = {"limit": "1000"} | ({"after_id": after} if after else {})
        asked = self._request("GET", "/v1/models", None, params=params)
        async with answered(self._client, self._who, asked) as response:
            body = b"".join([chunk async for chunk in raw_chunks(response, self._who)])
        try:
            page: Any = orjson.loads(body)
        except orjson.JSONDecodeError:
            page = None
        if not isinstance(page, dict):
            raise malformed("the list of models is no JSON object")
        return page

    @property
    def _client(self) -> httpx2.AsyncClient:
        if self._http is None:
            raise RuntimeError("the engine is not open")
        return self._http

    def _request(self, method: str, path: str, timeout: float | None, **more: Any) -> httpx2.Request:
        limits = timeouts(self.config.connect_timeout, timeout or self.config.read_timeout)
        return self._client.build_request(method, self.config.endpoint + path, timeout=limits, **more)


async def _body(head: dict[str, Any], rows: Rows, request: ModelRequest) -> AsyncGenerator[bytes, None]:
    text = b"{" + members(head) + b","
    try:
        async with aclosing(written(text, rows(), RowWriter(request), b"}")) as chunks:
            async for chunk in chunks:
                yield chunk
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
