"""``ENGINE_CLASS = OpenAI``: Chat Completions and Responses of any base URL.

The SDK makes the requests (address, headers, authentication, status errors); the body is ours, since the SDK
wants it whole in memory, and so is the reading, since its typed chunks cost ten times as much.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, cast

import anyio
import anyio.to_thread

from enginehost.engine import EngineContext
from enginehost.errors import EngineUnavailable, ExecutionFailed
from enginehost.llm.body import spooled, written
from enginehost.llm.exchange import LENGTH_REQUIRED, make_client, timeouts
from enginehost.llm.failures import from_status, from_transport
from enginehost.llm.message import Message
from enginehost.llm.model import AbstractModelEngine, ModelRequest, Rows
from enginehost.llm.sse import DONE, events
from enginehost_openai import chat_body, responses_body
from enginehost_openai.chat_stream import ChatReader
from enginehost_openai.config import OpenAiConfig
from enginehost_openai.responses_stream import ResponsesReader
from enginehost_openai.tools import Structured, Tools

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic import BaseModel

_SECRET = re.compile(r"(?i)key|token|secret|auth|cookie")
_REST_SECONDS = 0.25
"""How long the end of a body may take after its last event; else the connection is not used again."""

Body = Callable[[], AsyncGenerator[bytes, None]]
Reader = ChatReader | ResponsesReader


class OpenAiEngine(AbstractModelEngine):
    """A model behind OpenAI's API."""

    config_model: ClassVar[type[BaseModel] | None] = OpenAiConfig

    def __init__(self, context: EngineContext, config: OpenAiConfig) -> None:
        super().__init__(context, config)
        self.config: OpenAiConfig = config
        self._client: AsyncOpenAI | None = None
        self._spools = config.spool_body
        self._no_key: dict[str, Any] = {}
        """Headers that keep the SDK from asking for a key, where the file has none."""
        if config.api_key is not None:
            context.conceal(config.api_key.get_secret_value())
        for name, value in config.headers.items():
            if _SECRET.search(name):
                context.conceal(value)

    async def open(self) -> None:
        """Load the SDK, on a thread: that takes most of a second."""
        self._client = await anyio.to_thread.run_sync(self._make)

    def _make(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, Omit

        config = self.config
        key = config.api_key.get_secret_value().strip() if config.api_key is not None else ""
        if not key and not any(name.casefold() == "authorization" for name in config.headers):
            self._no_key = {"Authorization": Omit()}
        return AsyncOpenAI(
            api_key=key or "none",
            base_url=config.base_url,
            organization=config.organization or None,
            project=config.project or None,
            default_headers=config.headers,
            # a repetition needs its body made anew, which the service does
            max_retries=0,
            timeout=timeouts(config.connect_timeout, config.read_timeout),
            http_client=make_client(self.context.access),
        )

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def models(self) -> Sequence[str]:
        """What ``GET /models`` lists."""
        client = self._connected()
        with self._told(self.config.read_timeout):
            found: Any = await client.get("/models", cast_to=object, options={"headers": self._no_key})
        if isinstance(found, dict):
            found = cast("dict[str, Any]", found).get("data")
        listed: list[Any] = cast("list[Any]", found) if isinstance(found, list) else []
        return [str(one["id"]) for one in listed if isinstance(one, dict) and "id" in one]

    async def embed(self, model: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """What ``POST /embeddings`` gives for each text, in order."""
        body = {"model": model, "input": list(texts), "encoding_format": "float"}
        options: Any = {"headers": self._no_key}
        with self._told(self.config.read_timeout):
            found: Any = await self._connected().post(
                "/embeddings", cast_to=object, body=body, options=options
            )
        listed: Any = cast("dict[str, Any]", found).get("data") if isinstance(found, dict) else None
        try:
            rows = sorted(listed, key=lambda one: one["index"])
            vectors = [[float(number) for number in one["embedding"]] for one in rows]
        except (TypeError, KeyError, ValueError):
            vectors = []
        if len(vectors) != len(texts):
            text = f"{self.who} answered with no list of embeddings"
            raise ExecutionFailed(text, detail={"retryable": False})
        return vectors

    async def stream(self, rows: Rows, request: ModelRequest) -> AsyncGenerator[Message, None]:
        """See :class:`~enginehost.llm.model.IModelEngine`."""
        path, body, reader = self._prepared(rows, request)
        seconds = request.timeout or self.config.read_timeout
        async with AsyncExitStack() as stack:
            with self._told(seconds):
                response = await self._sent(stack, path, body, seconds)
                chunks = _chunks(response)
                stack.push_async_callback(response.aclose)
                if "text/event-stream" not in response.headers.get("content-type", "text/event-stream"):
                    # a server that does not stream gives one object
                    for message in reader.feed(await response.aread()):
                        yield message
                else:
                    async with aclosing(events(chunks)) as batches:
                        async for batch in batches:
                            for data in batch[: batch.index(DONE)] if DONE in batch else batch:
                                for message in reader.feed(data):
                                    yield message
                            if DONE in batch:  # what comes after it belongs to no answer
                                break
                        await _drained(batches)
            for message in reader.end():
                yield message

    def _prepared(self, rows: Rows, request: ModelRequest) -> tuple[str, Body, Reader]:
        """Where to, with which body, and who reads the answer."""
        config = self.config
        form = Structured(request.schema) if request.schema is not None else None
        if config.api == "chat":
            tools = Tools(request, "openai")
            chat_head = chat_body.head(config, request, tools, form)

            def chat() -> AsyncGenerator[bytes, None]:
                writer = chat_body.ChatWriter(tools, return_reasoning=config.return_reasoning)
                return written(chat_head, rows, writer, chat_body.TAIL)

            return "/chat/completions", chat, ChatReader(self.who, tools, form)
        tools = Tools(request, "openai-responses")
        head = responses_body.head(config, request, tools, form)

        def responses() -> AsyncGenerator[bytes, None]:
            writer = responses_body.ResponsesWriter(tools, request.model)
            return written(head, rows, writer, responses_body.TAIL)

        return "/responses", responses, ResponsesReader(self.who, tools, form, request.model)

    async def _sent(self, stack: AsyncExitStack, path: str, body: Body, seconds: float) -> httpx2.Response:
        """The answer to the body; to the body with its length before it, where the server wants that."""
        from openai import APIStatusError

        try:
            return await self._sent_once(stack, path, body, seconds)
        except APIStatusError as error:
            if self._spools or error.status_code != LENGTH_REQUIRED:
                raise
        self._spools = True
        return await self._sent_once(stack, path, body, seconds)

    async def _sent_once(
        self, stack: AsyncExitStack, path: str, body: Body, seconds: float
    ) -> httpx2.Response:
        from openai import AsyncStream

        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", **self._no_key}
        content = await stack.enter_async_context(aclosing(body()))
        if self._spools:
            spool = await stack.enter_async_context(spooled(content))
            content = await stack.enter_async_context(aclosing(spool.chunks()))
            headers["Content-Length"] = str(spool.size)
        timeout = timeouts(self.config.connect_timeout, seconds)
        stream = await self._connected().post(
            path,
            cast_to=object,
            content=content,
            options={"headers": headers, "timeout": timeout},
            stream=True,
            stream_cls=AsyncStream[object],
        )
        return stream.response

    def _connected(self) -> AsyncOpenAI:
        if self._client is None:
            raise EngineUnavailable(f"{self.who} is closed", state="closing")
        return self._client

    @contextmanager
    def _told(self, seconds: float) -> Generator[None, None, None]:
        """Errors of the SDK and of the network, in our own words."""
        import httpx2
        from openai import APIConnectionError, APIStatusError

        try:
            yield
        except APIStatusError as error:
            response = error.response
            raise from_status(self.who, response.status_code, response.headers, response.content) from None
        except APIConnectionError as error:
            cause = error.__cause__
            raise from_transport(
                self.who, cause if isinstance(cause, Exception) else error, seconds
            ) from error
        except httpx2.HTTPError as error:
            raise from_transport(self.who, error, seconds) from error


def _chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    packed = response.headers.get("content-encoding", "identity") != "identity"
    return response.aiter_bytes() if packed else response.aiter_raw()


async def _drained(batches: AsyncGenerator[list[bytes], None]) -> None:
    """Read to the end of the body, which lets the connection be used again."""
    with anyio.move_on_after(_REST_SECONDS):
        async for _ in batches:
            pass
