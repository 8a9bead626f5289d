"""The engines that turn a call into an HTTP request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio

from enginehost.engine import AbstractFunctionEngine, Call, EngineContext
from enginehost.errors import CallTimeout, EngineHostError, ExecutionFailed, InvalidArguments
from enginehost.signature import FunctionSignature
from enginehost.values import LARGE, aside
from enginehost_engines.rest.auth import credentials, is_telling, telling_values
from enginehost_engines.rest.config import RestConfig
from enginehost_engines.rest.request import Message, make_plan
from enginehost_engines.rest.response import NOTHING, MediaType, make_selector, read_body, shape

if TYPE_CHECKING:
    from httpx2 import Response

    from enginehost_engines.rest.transport import Client

_SILENCE_SECONDS = 60.0
"""How long an endpoint may be silent where neither the file nor the call says."""

_ERROR_BODY_BYTES = 8192


class _HttpEngine(AbstractFunctionEngine):
    """What the REST engines share: the plan made at load, and the connections taken at the first call."""

    config_model = RestConfig
    config: RestConfig

    def __init__(self, context: EngineContext, config: RestConfig) -> None:
        super().__init__(context, config)
        signature = context.signature or FunctionSignature(context.engine_id)
        self._plan = make_plan(config, signature, context.bind)
        self._select = make_selector(config.response_path)
        self._host = self._plan.endpoint.origin.authority
        self._client: Client | None = None
        self._warn_of_json_form()
        for secret in self._own_secrets():
            context.conceal(secret)

    async def close(self) -> None:
        """Give the connections back."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _warn_of_json_form(self) -> None:
        content_type = (self.config.content_type or "").strip().casefold()
        if "json" in content_type and content_type != "json":
            self.context.log.warning(
                "CONTENT_TYPE is not the word json, so the body is a form; write CONTENT_TYPE=json"
            )

    async def _connected(self) -> Client:
        if self._client is not None:
            return self._client
        from enginehost_engines.rest.transport import Client, PoolSettings

        settings = PoolSettings.of(self._plan.endpoint.origin, self.context.access.private_networks)
        client = await Client.open(settings)
        if self._client is not None:  # another call was quicker
            await client.close()
            return self._client
        self._client = client
        return client

    def _timeouts(self, call: Call) -> dict[str, float]:
        remaining = call.remaining
        connect, read = self.config.connect_timeout_seconds, self.config.read_timeout_seconds
        if remaining is not None:
            connect = min(connect, remaining)
            read = remaining if read is None else min(read, remaining)
        read = _SILENCE_SECONDS if read is None else read
        return {"connect": connect, "pool": connect, "read": read, "write": read}

    async def _refuse_failure(self, response: Response, parameters: Mapping[str, Any]) -> None:
        """Raise for every status but 2xx."""
        if response.is_success:
            return
        from enginehost_engines.rest.failures import redirect_failure, status_failure

        if response.is_redirect:
            location = response.headers.get("location", "")
            raise redirect_failure(
                self._plan.endpoint.origin, response.status_code, location, self._plan.redirects
            )
        media = MediaType(response.headers.get("content-type", ""))
        body = b""
        if media.is_json or media.is_text or not media.essence:
            body = await _beginning(response)
        secrets = set(self._secrets(parameters))
        text = self.context.redact(media.text(body))
        if len(body) == _ERROR_BODY_BYTES:  # the end may be the beginning of a secret
            text = text[: -max(map(len, secrets))]
        raise status_failure(self._host, response.status_code, text, secrets)

    def _own_secrets(self) -> Iterator[str]:
        """The secrets that stand in the file, as far as one can tell."""
        endpoint = self._plan.endpoint
        yield from credentials(self.config)
        for document in (self.config.headers, self.config.body_constants, endpoint.query_pairs):
            if document:  # most files have none, and ten thousand are read in a second
                yield from telling_values(document)
        yield from (segment for segment in endpoint.literal_segments if is_telling("", segment))

    def _secrets(self, parameters: Mapping[str, Any]) -> Iterator[str]:
        """What a service may repeat and no caller should read."""
        yield self.config.api_endpoint_url
        yield from self._own_secrets()
        yield from self._plan.endpoint.query_pairs.values()
        yield from (str(value) for value in self.config.headers.values())
        yield from (str(parameters[name]) for name in self.context.bind if name in parameters)

    def _select_from(self, value: Any) -> Any:
        return value if self._select is None else self._select(value)

    def _message(self, parameters: Mapping[str, Any], call: Call) -> Message:
        """The request. Raises :class:`InvalidArguments` in the words of the host's own checks."""
        try:
            return self._plan.message(parameters)
        except InvalidArguments as error:
            (found,) = error.detail["errors"]
            where = f" at {found['pointer']}" if found["pointer"] else ""
            text = f"{call.function}{where}: {found['message']}"
            raise InvalidArguments(text, errors=[found]) from None

    @contextmanager
    def _told(self, timeouts: dict[str, float], call: Call) -> Generator[None]:
        """Turn what the transport raises into errors for callers, which name the function."""
        from enginehost_engines.rest.failures import TRANSPORT_ERRORS, transport_failure

        try:
            yield
        except TRANSPORT_ERRORS as error:
            failure = transport_failure(error, self._host, timeouts, self._limits(timeouts))
            raise _named(failure, call) from error
        except EngineHostError as error:
            _named(error, call)
            raise

    def _limits(self, timeouts: Mapping[str, float]) -> dict[str, str]:
        """Who set the timeouts."""
        connect, read = self.config.connect_timeout_seconds, self.config.read_timeout_seconds
        named = {(connect, "connect"): "CONNECT_TIMEOUT_SECONDS", (read, "read"): "READ_TIMEOUT_SECONDS"}
        left = "what was left of the call"
        return {name: named.get((seconds, name), left) for name, seconds in timeouts.items()}

    @contextmanager
    def _until_deadline(self, call: Call) -> Generator[None]:
        """End what takes longer than the call may: an endpoint that drips is never silent."""
        remaining = call.remaining
        with anyio.move_on_after(remaining) as scope:
            yield
        if scope.cancelled_caught:
            raise CallTimeout(self._host, remaining or 0.0, limit="what was left of the call")


def _named(error: EngineHostError, call: Call) -> EngineHostError:
    """The error with the function's name before it: one host may stand behind many functions."""
    error.message = f"{call.function}: {error.message}"
    error.args = (error.message, *error.args[1:])
    return error


async def _beginning(response: Response) -> bytes:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= _ERROR_BODY_BYTES:
            break
    return body[:_ERROR_BODY_BYTES]


class RestEngine(_HttpEngine):
    """One endpoint: arguments become a request, the answer becomes the result.

    JSON is parsed, text is text, anything else bytes. HEAD answers with the headers.
    """

    async def execute(self, parameters: dict[str, Any], call: Call) -> Any:
        """Send one request. Raises the errors of :mod:`enginehost.errors`; none holds a secret."""
        message = self._message(parameters, call)
        timeouts = self._timeouts(call)
        client = await self._connected()
        with self._told(timeouts, call), self._until_deadline(call):
            async with client.exchange(message, timeouts, self._plan.redirects) as response:
                await self._refuse_failure(response, parameters)
                return self._selected(await self._result(response, call))
        raise AssertionError("a scope that ends early raises")

    async def _result(self, response: Response, call: Call) -> Any:
        if self._plan.method == "HEAD":
            return dict(response.headers.items())
        body = await read_body(response.aiter_bytes(), self.config.max_response_bytes, self._host)
        answer = body, MediaType(response.headers.get("content-type", "")), self._host, response.status_code
        if len(body) < LARGE:
            return shape(*answer)
        call.large = True
        return await aside(shape, *answer)

    def _selected(self, value: Any) -> Any:
        found = self._select_from(value)
        if found is NOTHING:
            path = self.config.response_path or ""
            message = f"the answer of {self._host} has nothing at RESPONSE_PATH = {path}"
            raise ExecutionFailed(message, detail={"pointer": path} if path.startswith("/") else {})
        return found


class StreamRestEngine(_HttpEngine):
    """One endpoint whose answer arrives item by item (see :func:`enginehost_engines.rest.stream.items`)."""

    async def execute(self, parameters: dict[str, Any], call: Call) -> AsyncIterator[Any]:
        """Send one request and yield what comes, as it comes; closing the generator closes the connection."""
        from enginehost_engines.rest.stream import items

        message = self._message(parameters, call)
        timeouts = self._timeouts(call)
        client = await self._connected()
        with self._told(timeouts, call):
            async with client.exchange(message, timeouts, self._plan.redirects) as response:
                await self._refuse_failure(response, parameters)
                async for item in self._in_time(
                    items(response, self.config.max_response_bytes, self._host), call
                ):
                    found = self._select_from(item)
                    if found is not NOTHING:
                        yield found

    async def _in_time(self, source: AsyncIterator[Any], call: Call) -> AsyncIterator[Any]:
        while True:
            with self._until_deadline(call):
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    return
            yield item
