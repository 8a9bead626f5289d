"""Who calls, and where: boto3's credentials and addresses, and signatures made with botocore."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol

import anyio.to_thread

from enginehost.errors import ConfigError, EngineUnavailable
from enginehost_bedrock.config import BedrockConfig

if TYPE_CHECKING:
    from pydantic import SecretStr

SERVICE = "bedrock"
"""The name that requests are signed with."""

_HASH = "X-Amz-Content-SHA256"


class Hashing:
    """Passes chunks through and hashes them: a signature has the hash of the body."""

    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._chunks = chunks
        self._hash = hashlib.sha256()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            self._hash.update(chunk)
            yield chunk

    @property
    def hex(self) -> str:
        """The hash of what has passed."""
        return self._hash.hexdigest()


class Access(Protocol):
    """How a request is proven."""

    signs: bool
    """Whether the hash of the body has to be known before it is sent."""

    async def headers(self, method: str, url: str, body_hash: str) -> dict[str, str]:
        """The headers of a request."""
        ...


class Bearer:
    """A Bedrock API key."""

    signs = False

    def __init__(self, key: str) -> None:
        self._key = key

    async def headers(self, method: str, url: str, body_hash: str) -> dict[str, str]:
        """The key."""
        return {"authorization": f"Bearer {self._key}"}


class Signed:
    """Signature version 4."""

    signs = True

    def __init__(self, credentials: Any, region: str) -> None:
        self._credentials = credentials
        self._region = region

    async def headers(self, method: str, url: str, body_hash: str) -> dict[str, str]:
        """The signature and what it is about; credentials that end are made anew before."""
        return await anyio.to_thread.run_sync(self._headers, method, url, body_hash)

    def _headers(self, method: str, url: str, body_hash: str) -> dict[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        try:
            frozen = self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise _no_credentials(f"they cannot be renewed ({type(error).__name__})") from error
        request: Any = AWSRequest(method, url, headers={"content-type": "application/json", _HASH: body_hash})
        SigV4Auth(frozen, SERVICE, self._region).add_auth(request)
        return {str(name): str(value) for name, value in request.headers.items()}


class Reached:
    """Where the service is, and how calls of it are proven."""

    def __init__(self, runtime: str, control: str, access: Access) -> None:
        self.runtime = runtime
        self.control = control
        """Where models are listed; empty: nowhere."""
        self.access = access


def reach(config: BedrockConfig) -> Reached:
    """What boto3 makes of a file's keys and of the host's AWS configuration. Blocks.

    Raises :class:`ConfigError` where a region or credentials are missing.
    """
    import boto3
    import botocore.session
    from botocore.exceptions import BotoCoreError

    try:
        inner: Any = botocore.session.Session(profile=config.aws_profile or None)
        session: Any = boto3.Session(
            botocore_session=inner,
            aws_access_key_id=_secret(config.aws_access_key),
            aws_secret_access_key=_secret(config.aws_secret_key),
            aws_session_token=_secret(config.aws_session_token),
            region_name=config.aws_region or None,
        )
        region = session.region_name
        if not region:
            hint = "write AWS_REGION = eu-central-1"
            raise ConfigError("no AWS region is known", key="AWS_REGION", hint=hint)
        runtime = config.endpoint or _endpoint(session, "bedrock-runtime")
        control = config.list_endpoint or ("" if config.endpoint else _endpoint(session, "bedrock"))
        return Reached(runtime, control, _access(inner, config, region))
    except BotoCoreError as error:
        raise ConfigError(f"the AWS configuration cannot be used: {error}") from error


def _access(session: Any, config: BedrockConfig, region: str) -> Access:
    if config.api_key is not None:
        return Bearer(config.api_key.get_secret_value().strip())
    if config.aws_access_key is None and not config.aws_profile:
        token = session.get_auth_token(signing_name=SERVICE)
        if token is not None:
            return Bearer(token.get_frozen_token().token)
    credentials = session.get_credentials()
    if credentials is None:
        raise ConfigError(
            "there are no AWS credentials",
            hint="write AWS_ACCESS_KEY and AWS_SECRET_KEY, AWS_PROFILE or API_KEY, or give the host some",
        )
    return Signed(credentials, region)


def _endpoint(session: Any, service: str) -> str:
    client: Any = session.client(service)
    try:
        return str(client.meta.endpoint_url)
    finally:
        client.close()


def _secret(value: SecretStr | None) -> str | None:
    return value.get_secret_value().strip() if value is not None else None


def _no_credentials(why: str) -> EngineUnavailable:
    error = EngineUnavailable(f"there are no AWS credentials: {why}", reason="no credentials")
    error.detail["retryable"] = True
    return error
