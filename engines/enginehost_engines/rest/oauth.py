"""Access tokens of OAuth 2.0 (RFC 6749): one for all engines with the same credentials, renewed early.

authlib judges how long a token holds; the requests travel as all of REST engines do.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import anyio

from enginehost.errors import EngineHostError, EngineUnavailable
from enginehost.values import MalformedJson, decode
from enginehost_engines.rest.grants import Grant, token_request
from enginehost_engines.rest.proof import Proof, with_headers
from enginehost_engines.rest.request import Message
from enginehost_engines.rest.response import read_body

EARLY_SECONDS = 60.0
"""How long before its end a token is renewed, at most a fifth of its life."""

RENEW_AGAIN_SECONDS = 10.0
"""After a renewal failed, the old token is used so long, if it holds, before the next try."""

_MOST_BYTES = 2**20
_ERROR = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True, eq=False)
class Token:
    """An access token; the times are :func:`time.monotonic` seconds."""

    text: str = field(repr=False)
    due: float
    """When it is to be renewed."""
    ends: float

    def __call__(self, message: Message) -> Message:
        """The message with the token."""
        return with_headers(message, Authorization=f"Bearer {self.text}")


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why no token came; each caller gets an error of its own."""

    reason: str
    retry_may_help: bool

    def error(self, host: str) -> EngineUnavailable:
        error = EngineUnavailable(f"no token from {host}: {self.reason}", reason=self.reason)
        error.detail["retry_may_help"] = self.retry_may_help
        return error


class _NoToken(Exception):
    def __init__(self, reason: str, *, retry_may_help: bool = False) -> None:
        super().__init__(reason)
        self.failure = _Failure(reason, retry_may_help)


class TokenSource:
    """The token of one grant, for all engines of an event loop that have it."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._token: Token | None = None
        self._refresh_token = grant.refresh_token
        self._fetching = anyio.Lock()  # one fetch at a time: those who wait take what it brings
        self._failures = 0
        self._failure: _Failure | None = None

    @classmethod
    def of(cls, grant: Grant) -> TokenSource:
        """The source that this event loop has for the grant; it lives as long as an engine holds it."""
        sources = _sources.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        source = sources.get(grant)
        if source is None:
            source = sources[grant] = cls(grant)
        return source

    def secrets(self) -> Iterator[str]:
        """The token, and what it was got with."""
        grant = self._grant
        token = self._token.text if self._token else ""
        yield from (token, self._refresh_token, grant.client_secret, grant.password, grant.refresh_token)

    async def proof(self, refused: Proof | None = None) -> Token:
        """A token that holds (see :class:`~enginehost_engines.rest.proof.Prover`)."""
        token = self._holding(refused)
        if token is not None and (time.monotonic() < token.due or self._fetching.locked()):
            return token
        failures = self._failures
        async with self._fetching:
            token = self._holding(refused)
            if token is not None and time.monotonic() < token.due:
                return token
            if self._failure is not None and self._failures > failures:
                raise self._failure.error(self._grant.host)
            return await self._renewed(token)

    def _holding(self, refused: Proof | None) -> Token | None:
        token = self._token
        return None if token is None or token is refused or time.monotonic() >= token.ends else token

    async def _renewed(self, old: Token | None) -> Token:
        """A new token. Where none comes: the old one while it holds, else an error."""
        try:
            self._token, self._failure = await self._fetched(), None
        except _NoToken as problem:
            self._failure = problem.failure
            self._failures += 1
            if old is None:
                self._token = None
                raise problem.failure.error(self._grant.host) from problem
            self._token = Token(old.text, min(old.ends, time.monotonic() + RENEW_AGAIN_SECONDS), old.ends)
        return self._token

    async def _fetched(self) -> Token:
        seconds = self._grant.seconds
        try:
            with anyio.fail_after(seconds):
                status, body = await self._asked()
        except TimeoutError:
            raise _NoToken(f"it did not answer within {seconds:g} s", retry_may_help=True) from None
        answer = _object(body)
        if status != 200 or "error" in answer:
            self._forget_rotated(answer)
            raise _NoToken(_refusal(status, answer), retry_may_help=status == 429 or status >= 500)
        return self._read(answer)

    def _forget_rotated(self, answer: Mapping[str, Any]) -> None:
        """A refresh token that came later may have been withdrawn: begin again with that of the file."""
        if answer.get("error") == "invalid_grant":
            self._refresh_token = self._grant.refresh_token

    async def _asked(self) -> tuple[int, bytes]:
        from enginehost_engines.rest.failures import TRANSPORT_ERRORS, transport_failure
        from enginehost_engines.rest.transport import Client

        host, seconds = self._grant.host, self._grant.seconds
        timeouts = {"connect": seconds, "pool": seconds, "read": seconds, "write": seconds}
        message = token_request(self._grant, self._refresh_token)
        client = await Client.open(self._grant.settings)
        try:
            async with client.exchange(message, timeouts, "never") as response:
                return response.status_code, await read_body(response.aiter_bytes(), _MOST_BYTES, host)
        except TRANSPORT_ERRORS as error:
            failure = transport_failure(error, host, timeouts, dict.fromkeys(timeouts, ""))
            raise _NoToken(failure.message, retry_may_help=True) from error
        except EngineHostError as error:  # an answer that is too large
            raise _NoToken(error.message) from error
        finally:
            await client.close()

    def _read(self, answer: Mapping[str, Any]) -> Token:
        from authlib.oauth2.rfc6749 import OAuth2Token

        text, kind = answer.get("access_token"), answer.get("token_type") or "bearer"
        if not isinstance(text, str) or not _TOKEN.fullmatch(text):
            raise _NoToken("it answered without an access token")
        if str(kind).lower() != "bearer":
            raise _NoToken("its token is no bearer token")
        try:
            ends: Any = OAuth2Token({"expires_in": answer.get("expires_in")}).get("expires_at")
            life = float(ends) - time.time() if ends else 0.0
        except (TypeError, ValueError, OverflowError):
            life = 0.0
        if life <= 0.0:  # it says nothing, or nonsense: the token holds until it is refused
            life = float("inf")
        refresh = answer.get("refresh_token")
        if isinstance(refresh, str) and refresh:
            self._refresh_token = refresh
        now = time.monotonic()
        return Token(text, now + life - min(EARLY_SECONDS, life / 5), now + life)


_sources: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Grant, TokenSource]] = (
    WeakKeyDictionary()
)


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        answer = decode(body)
    except MalformedJson:
        return {}
    return cast("Mapping[str, Any]", answer) if isinstance(answer, dict) else {}


def _refusal(status: int, answer: Mapping[str, Any]) -> str:
    """The status, and the error's code; its description may repeat what was sent."""
    code = answer.get("error")
    told = f" ({code})" if isinstance(code, str) and _ERROR.fullmatch(code) else ""
    return f"it answered {status}{told}"
