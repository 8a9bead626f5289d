"""What turns a call into an HTTP request, and what goes wrong into errors for callers."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from enginehost.engine import AbstractFunctionEngine, Call, EngineContext
from enginehost.errors import CallTimeout, EngineHostError, InvalidArguments
from enginehost.signature import FunctionSignature
from enginehost_engines.rest.auth import GRANTS, auth_kind, credentials, is_telling, telling_values
from enginehost_engines.rest.config import RestConfig
from enginehost_engines.rest.media import MediaType
from enginehost_engines.rest.request import Message, make_plan
from enginehost_engines.rest.response import make_selector
from enginehost_engines.rest.tls import check_libraries, make_context, tls_files

if TYPE_CHECKING:
    from httpx2 import Response

    from enginehost_engines.rest.proof import Prover
    from enginehost_engines.rest.sending import Way

_SILENCE_SECONDS = 60.0
"""How long an endpoint may be silent where neither the file nor the call says."""

_BACKSTOP_SECONDS = 0.25
"""How long after its deadline an engine ends a call: the host is to do it, and says whose limit it was."""

_ERROR_BODY_BYTES = 8192


class HttpEngine(AbstractFunctionEngine):
    """What the REST engines share: the plan made at load, and the connections taken at the first call."""

    config_model = RestConfig
    config: RestConfig

    def __init__(self, context: EngineContext, config: RestConfig) -> None:
        super().__init__(context, config)
        signature = context.signature or FunctionSignature(context.engine_id)
        self._plan = make_plan(config, signature, context.bind)
        self._select = make_selector(config.response_path)
        self._host = self._plan.endpoint.origin.authority
        self._way: Way | None = None
        self._prover: Prover | None = None
        self._tls = tls_files(config, context.folder)
        check_libraries(config)
        self._warn_of_json_form()
        for secret in self._own_secrets():
            context.conceal(secret)

    @property
    def opens_at_once(self) -> bool:
        """Whether there are neither TLS files nor tokens, as in nearly every file."""
        return not self._tls.paths and auth_kind(self.config) not in GRANTS

    async def open(self) -> None:
        """Find out whether the TLS files are what they should be: a broken one replaces none that serves.

        The tokens that an engine has which this one replaces are taken over: hold them before that is closed.
        """
        if self._tls.paths:
            await to_thread.run_sync(make_context, self._tls)
        if auth_kind(self.config) in GRANTS:
            from enginehost_engines.rest.connecting import prover_of

            self._prover = prover_of(self.config, self.context, self._tls)

    async def close(self) -> None:
        """Give the connections back."""
        self._prover = None
        way, self._way = self._way, None
        if way is not None:
            await way.close()

    def watched(self) -> Sequence[Path]:
        """The TLS files: renewed ones are taken up."""
        return self._tls.paths

    @property
    def trouble(self) -> str:
        """That calls are refused, because the service failed again and again; empty while none are."""
        return self._way.breaker.trouble if self._way is not None else ""

    def _warn_of_json_form(self) -> None:
        content_type = (self.config.content_type or "").strip().casefold()
        if "json" in content_type and content_type != "json":
            self.context.log.warning(
                "CONTENT_TYPE is not the word json, so the body is a form; write CONTENT_TYPE=json"
            )

    async def _connected(self) -> Way:
        if self._way is not None:
            return self._way
        from enginehost_engines.rest.connecting import open_way

        way = await open_way(self.config, self.context, self._plan, self._tls)
        if self._way is not None:  # another call was quicker
            await way.close()
            return self._way
        self._way = way
        return way

    async def _opened(
        self,
        message: Message,
        parameters: Mapping[str, Any],
        call: Call,
        timeouts: dict[str, float],
        accepted: int | None = None,
    ) -> Response:
        """A successful answer, or one with the status ``accepted``, with its body still to be read.

        The caller closes it. ``timeouts`` are brought up to date at each try. Raises as httpcore2 does, and
        the errors of the host.
        """

        def now() -> dict[str, float]:
            timeouts.update(self._timeouts(call))
            return timeouts

        way = await self._connected()
        with self._until_deadline(call):
            response = await way.send(message, now, lambda: call.remaining)
            if response.is_success or response.status_code == accepted:
                return response
            try:
                await self._refuse_failure(response, parameters)
            finally:
                await response.aclose()
        raise AssertionError("what is no success raises")

    def _timeouts(self, call: Call) -> dict[str, float]:
        left = _until_backstop(call)
        connect, read = self.config.connect_timeout_seconds, self.config.read_timeout_seconds
        if left is not None:
            connect = min(connect, left)
            read = left if read is None else min(read, left)
        read = _SILENCE_SECONDS if read is None else read
        return {"connect": connect, "pool": connect, "read": read, "write": read}

    async def _refuse_failure(self, response: Response, parameters: Mapping[str, Any]) -> None:
        """Raise what a status other than 2xx means."""
        from enginehost_engines.rest.failures import redirect_failure, status_failure
        from enginehost_engines.rest.retries import retry_after

        if response.is_redirect:
            location = response.headers.get("location", "")
            raise redirect_failure(
                self._plan.endpoint.origin, response.status_code, location, self._plan.redirects
            )
        media = MediaType(response.headers.get("content-type", ""), self.config.response_charset)
        body = b""
        if media.is_json or media.is_text or not media.essence:
            body = await _beginning(response)
        secrets = set(self._secrets(parameters))
        text = self.context.redact(media.told(body))
        if len(body) == _ERROR_BODY_BYTES:  # the end may be the beginning of a secret
            text = text[: -max(map(len, secrets))]
        raise status_failure(self._host, response.status_code, text, secrets, retry_after(response.headers))

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
        if self._way is not None:
            yield from self._way.secrets()
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
            raise named_refusal(error, call) from None

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
        left = _until_backstop(call)
        with anyio.move_on_after(left) as scope:
            yield
        if scope.cancelled_caught:
            raise CallTimeout(self._host, left or 0.0, limit="what was left of the call")


def _until_backstop(call: Call) -> float | None:
    if call.deadline is None:
        return None
    return max(0.0, call.deadline + _BACKSTOP_SECONDS - time.monotonic())


def named_refusal(error: InvalidArguments, call: Call) -> InvalidArguments:
    """The error in the words of the host's own checks."""
    (found,) = error.detail["errors"]
    where = f" at {found['pointer']}" if found["pointer"] else ""
    return InvalidArguments(f"{call.function}{where}: {found['message']}", errors=[found])


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
