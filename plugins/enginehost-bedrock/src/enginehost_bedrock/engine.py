"""The engine of ``ENGINE_CLASS = Bedrock``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import anyio.to_thread

from enginehost.engine import EngineContext
from enginehost.llm.body import members, spooled, written
from enginehost.llm.exchange import answered, json_object, raw_chunks
from enginehost.llm.http_engine import HttpModelEngine
from enginehost.llm.message import Message
from enginehost.llm.model import ModelRequest, Rows
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


class BedrockModel(HttpModelEngine):
    """Bedrock in one region, with a default model.

    boto3 finds credentials and addresses and botocore signs and parses; the connections are our own, since
    those of boto3 would take a thread for each answer and the whole request in memory.
    """

    config_model = BedrockConfig
    config: BedrockConfig

    def __init__(self, context: EngineContext, config: BedrockConfig) -> None:
        super().__init__(context, config)
        self._there: Reached | None = None

    async def open(self) -> None:
        """Find region, address and credentials; nothing is asked of Bedrock."""
        for secret in (self.config.api_key, self.config.aws_secret_key, self.config.aws_session_token):
            if secret is not None:
                self.context.conceal(secret.get_secret_value().strip())
        self._there = await anyio.to_thread.run_sync(reach, self.config)
        self.connect()

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
        answer = Answer(self.who, request.model, structured)
        family = family_of(request.model, self.config.model_family)
        writer = RowWriter(request, caches(family, request.model))
        async with AsyncExitStack() as stack:
            text = b"{" + members(head) + (b"," if head else b"")
            body = await stack.enter_async_context(aclosing(written(text, rows, writer, b"}")))
            asked = await self._asked(stack, body, request)
            response = await stack.enter_async_context(answered(self.client, self.who, asked))
            chunks = await stack.enter_async_context(aclosing(raw_chunks(response, self.who)))
            if not self.config.stream:
                for message in answer.whole(await json_object(chunks)):
                    yield message
                return
            said = await stack.enter_async_context(aclosing(events(self.who, chunks)))
            async for kind, event in said:
                for message in answer.take(kind, event):
                    yield message
        for message in answer.end():
            yield message

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
        return self.request("POST", url, request.timeout, content=content, headers=headers)

    async def _listed(self, path: str, params: dict[str, str], member: str, name: str) -> list[str]:
        found: list[str] = []
        for _ in range(_MOST_PAGES):
            url = f"{self._reached.control}{path}?{urlencode(sorted(params.items()))}"
            headers = await self._reached.access.headers("GET", url, _EMPTY_HASH)
            asked = self.request("GET", url, headers=headers)
            async with answered(self.client, self.who, asked) as response:
                page = await json_object(raw_chunks(response, self.who))
            found += [str(one[name]) for one in page.get(member) or ()]
            if not page.get("nextToken"):
                break
            params = {**params, "nextToken": str(page["nextToken"])}
        return found

    @property
    def _reached(self) -> Reached:
        if self._there is None:
            raise RuntimeError("the engine is not open")
        return self._there
