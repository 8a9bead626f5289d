"""Signatures of AWS (Signature Version 4), made by botocore."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import anyio
from anyio import to_thread

from enginehost.errors import EngineUnavailable
from enginehost_engines.rest.proof import Proof, with_headers
from enginehost_engines.rest.request import Message

if TYPE_CHECKING:
    from enginehost_engines.rest.config import RestConfig

_NO_CREDENTIALS = "no AWS credentials are in the file, nor where AWS's tools look for them"


@dataclass(frozen=True, slots=True, eq=False)
class AwsProof:
    """Frozen credentials of botocore (``access_key``, ``secret_key``, ``token``) for one service."""

    credentials: Any
    service: str
    region: str

    def __call__(self, message: Message) -> Message:
        """The message, signed for this moment; what it asks for is encoded as AWS reads it."""
        from botocore.auth import S3SigV4Auth, SigV4Auth
        from botocore.awsrequest import AWSRequest

        message = replace(message, target=canonical(message.target))
        signed = {b"host", b"content-type"}
        request = AWSRequest(
            method=message.method,
            url=f"{message.origin.scheme}://{message.origin.authority}{message.target.decode()}",
            data=message.body,
            headers={
                name.decode(): value.decode()
                for name, value in message.headers
                if name.lower() in signed or name.lower().startswith(b"x-amz-")
            },
        )
        kind: Any = S3SigV4Auth if self.service == "s3" else SigV4Auth
        kind(self.credentials, self.service, self.region).add_auth(request)
        return with_headers(message, **{str(name): str(value) for name, value in request.headers.items()})


class AwsProver:
    """Credentials of the file, else of the chain that AWS's tools know: environment, profile, role."""

    def __init__(self, config: RestConfig) -> None:
        self._service = config.auth_aws_service or ""
        self._region = config.auth_aws_region or ""
        self._key = config.auth_aws_access_key_id
        secret, token = config.auth_aws_secret_access_key, config.auth_aws_session_token
        self._secret = secret.get_secret_value() if secret else ""
        self._token = token.get_secret_value() if token else None
        self._seconds = config.auth_timeout_seconds
        self._last: Any = None

    async def proof(self, refused: Proof | None = None) -> AwsProof:
        """Credentials as they are now; botocore renews those of the chain, which may take a while.

        There are no others than those that a service ``refused``.
        """
        if isinstance(refused, AwsProof):
            return refused
        if self._key:
            from botocore.credentials import ReadOnlyCredentials

            self._last = ReadOnlyCredentials(self._key, self._secret, self._token)
        else:
            self._last = await self._of_surroundings()
        return AwsProof(self._last, self._service, self._region)

    async def _of_surroundings(self) -> Any:
        """Asking a role for credentials may take a while, and go on after nobody waits."""
        try:
            with anyio.fail_after(self._seconds):
                return await to_thread.run_sync(_of_chain, abandon_on_cancel=True)
        except TimeoutError:
            reason = f"no AWS credentials came within {self._seconds:g} s"
            raise EngineUnavailable(reason, reason=reason) from None

    def secrets(self) -> Iterator[str]:
        """The secret key and the session token."""
        yield self._secret
        if self._last is not None:
            yield self._last.secret_key
            yield self._last.token or ""


def _of_chain() -> Any:
    from botocore.exceptions import BotoCoreError

    try:
        credentials = _chain().get_credentials()
        if credentials is not None:
            return credentials.get_frozen_credentials()
    except BotoCoreError as error:
        raise EngineUnavailable(_NO_CREDENTIALS, reason=_NO_CREDENTIALS) from error
    raise EngineUnavailable(_NO_CREDENTIALS, reason=_NO_CREDENTIALS)


@lru_cache(1)
def _chain() -> Any:
    from botocore.session import Session

    return Session()


def canonical(target: bytes) -> bytes:
    """Path and query with everything percent-encoded but letters, digits and ``-._~``, as AWS reads them."""
    path, mark, query = target.decode().partition("?")
    path = "/".join(_again(segment) for segment in path.split("/"))
    pairs = "&".join("=".join(map(_again, pair.split("=", 1))) for pair in query.split("&"))
    return f"{path}{mark}{pairs}".encode()


def _again(text: str) -> str:
    return quote(unquote(text, errors="surrogateescape"), safe="", errors="surrogateescape")
