"""The engine of ``ENGINE_CLASS = Bedrock``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import anyio.to_thread
import orjson

from enginehost.engine import EngineContext
from enginehost.errors import InvalidRequest
from enginehost.llm.body import members, spooled, written
from enginehost.llm.exchange import answered, make_client, raw_chunks, timeouts
from enginehost.llm.message import Message
from enginehost.llm.model import AbstractModelEngine, ModelRequest, Rows
from enginehost.llm.sse import malformed
from enginehost_bedrock.access import Hashing, Reached, reach
from enginehost_bedrock.answer import Answer
from enginehost_bedrock.config import BedrockConfig
from enginehost_bedrock.eventstream import events
from enginehost_bedrock.families import caches, family_of
from enginehost_bedrock.request import head_of
from enginehost_bedrock.rows import Rows as RowWriter

if TYPE_CHECKING:
    import httpx2

_EMPTY_HASH = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_MOST_PAGES = 20


class BedrockModel(AbstractModelEngine):
    """Bedrock in one region, with a default model.

    boto3 finds credentials and addresses and botocore signs and parses; the connections are our own, since
    those of boto3 would take a thread for each answer and the whole request in memory.
    """

    config_model = BedrockConfig
    config: BedrockConfig

    def __init__(self, context: EngineContext, config: BedrockConfig) -> None:
        super().__init__(context, config)
        self._who = context.display_name or context.alias or context.engine_id
        self._http: httpx2.AsyncClient | None = None
        self._there: Reached | None = None

    async def open(self) -> None:
        """Find region, address and credentials; nothing is asked of Bedrock."""
        for secret in (self.config.api_key, self.config.aws_secret_key, self.config.aws_session_token):
            if secret is not None:
                self.context.conceal(secret.get_secret_value().strip())
        self._there = await anyio.to_thread.run_sync(reach, self.config)
        self._http = make_client(self.context.access)

    async def close(self) -> None:
        """Close all connections."""
        if self._http is not None:
            http, self._http = self._http, None
            await http.aclose()

    async def models(self) -> Sequence[str]:
        """The ids of the region's text models and of the inference profiles; none where ENDPOINT is given."""
        if not self._reached.control:
            return ()
        found = await self._listed(
            "/foundation-models", {"byOutputModality": "TEXT"}, "modelSummaries", "modelId"
        )
        profiles = await self._listed(
            "/inference-profiles", {"maxResults": "1000"}, "inferenceProfileSummaries", "inferenceProfileId"
        )
        return [*found, *profiles]

    async def stream(self, rows: Rows, request: ModelRequest) -> AsyncGenerator[Message, None]:
        """The answer."""
        head, structured = head_of(request, self.config)
        answer = Answer(self._who, request.model, structured)
        family = family_of(request.model, self.config.model_family)
        writer = RowWriter(request, caches(family, request.model))
        async with AsyncExitStack() as stack:
            body = await stack.enter_async_context(aclosing(_body(head, rows, writer)))
            asked = await self._asked(stack, body, request)
            response = await stack.enter_async_context(answered(self._client, self._who, asked))
            chunks = await stack.enter_async_context(aclosing(raw_chunks(response, self._who)))
            if not self.config.stream:
                for message in answer.whole(await _json(chunks)):
                    yield message
                return
            said = await stack.enter_async_context(aclosing(events(self._who, chunks)))
            async for kind, event in said:
                for message in answer.take(kind, event):
                    yield message
        yield answer.end()

    async def _asked(
        self, stack: AsyncExitStack, body: AsyncGenerator[bytes, None], request: ModelRequest
    ) -> httpx2.Request:
        """The request, written to a temporary file first where it has to be signed."""
        operation = "converse-stream" if self.config.stream else "converse"
        url = f"{self._reached.runtime}/model/{quote(request.model, safe='')}/{operation}"
        access = self._reached.access
        content: AsyncIterable[bytes] = body
        headers = {"content-type": "application/json"}
        body_hash = ""
        if access.signs:
            hashing = Hashing(body)
            file = await stack.enter_async_context(spooled(hashing))
            content, body_hash = file.chunks(), hashing.hex
            headers["content-length"] = str(file.size)
        headers |= await access.headers("POST", url, body_hash)
        limits = timeouts(self.config.connect_timeout, request.timeout or self.config.read_timeout)
        return self._client.build_request("POST", url, content=content, headers=headers, timeout=limits)

    async def _listed(self, path: str, params: dict[str, str], member: str, name: str) -> list[str]:
        found: list[str] = []
        for _ in range(_MOST_PAGES):
            url = f"{self._reached.control}{path}?{urlencode(sorted(params.items()))}"
            headers = await self._reached.access.headers("GET", url, _EMPTY_HASH)
            limits = timeouts(self.config.connect_timeout, self.config.read_timeout)
            asked = self._client.build_request("GET", url, headers=headers, timeout=limits)
            async with answered(self._client, self._who, asked) as response:
                page = await _json(raw_chunks(response, self._who))
            found += [str(one[name]) for one in page.get(member) or ()]
            if not page.get("nextToken"):
                break
            params = {**params, "nextToken": str(page["nextToken"])}
        return found

    @property
    def _client(self) -> httpx2.AsyncClient:
        if self._http is None:
            raise RuntimeError("the engine is not open")
        return self._http

    @property
    def _reached(self) -> Reached:
        if self._there is None:
            raise RuntimeError("the engine is not open")
        return self._there


async def _body(head: dict[str, Any], rows: Rows, writer: RowWriter) -> AsyncGenerator[bytes, None]:
    text = b"{" + members(head) + (b"," if head else b"")
    try:
        async with aclosing(written(text, rows(), writer, b"}")) as chunks:
            async for chunk in chunks:
                yield chunk
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


async def _json(chunks: AsyncIterable[bytes]) -> dict[str, Any]:
    body = b"".join([chunk async for chunk in chunks])
    try:
        found: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise malformed("it is no JSON object")
    return found
