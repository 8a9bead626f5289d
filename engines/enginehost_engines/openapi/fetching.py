"""Gets documents over HTTP, by the REST engine's own way out: same limits, same refusals."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from enginehost.errors import CallTimeout, ConfigError, EngineUnavailable
from enginehost.signature import FunctionSignature
from enginehost_engines.openapi.documents import shown_url
from enginehost_engines.openapi.faults import broken
from enginehost_engines.openapi.reading import MAX_BYTES
from enginehost_engines.rest.config import RestConfig
from enginehost_engines.rest.request import Headers, make_plan

SECONDS = 30.0
"""How long a document may take to arrive, in all."""

_ACCEPT = (b"Accept", b"application/json, application/yaml, */*;q=0.5")


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document as it came; ``data`` is ``None`` where it has not changed since ``marks``."""

    data: bytes | None
    marks: Headers = ()
    """What to send next time, so that only a change is answered: ``If-None-Match``, ``If-Modified-Since``."""


async def fetch(url: str, *, private_networks: bool = True, marks: Headers = ()) -> Fetched:
    """Get a document. Raises :class:`ConfigError` or :class:`EngineUnavailable`; no text has the query."""
    try:
        return await asyncio.wait_for(_fetch(url, private_networks, marks), SECONDS)
    except TimeoutError:
        raise EngineUnavailable(f"{shown_url(url)} did not come within {SECONDS:g} s") from None


async def _fetch(url: str, private_networks: bool, marks: Headers) -> Fetched:
    from enginehost_engines.rest.failures import TRANSPORT_ERRORS, redirect_failure, transport_failure
    from enginehost_engines.rest.response import read_body
    from enginehost_engines.rest.transport import Client, PoolSettings

    plan = make_plan(
        RestConfig.model_validate({"API_ENDPOINT_URL": _without_places(url)}), FunctionSignature("f")
    )
    message = plan.message({})
    kept = tuple(header for header in message.headers if header[0].lower() != b"accept")
    message = replace(message, headers=(*kept, _ACCEPT, *marks))
    origin = plan.endpoint.origin
    timeouts: dict[str, float] = {"connect": SECONDS, "pool": SECONDS, "read": SECONDS, "write": SECONDS}
    client = await Client.open(PoolSettings.of(origin, private_networks))
    try:
        async with client.exchange(message, timeouts) as response:
            if response.status_code == 304 and marks:
                return Fetched(None, marks)
            if response.is_redirect:
                location = response.headers.get("location", "")
                failure = redirect_failure(origin, response.status_code, location, plan.redirects)
                raise EngineUnavailable(failure.message)
            if not response.is_success:
                raise EngineUnavailable(f"{shown_url(url)} answered {response.status_code}")
            data = await read_body(response.aiter_bytes(), MAX_BYTES, origin.authority)
            return Fetched(data, _marks(response.headers))
    except TRANSPORT_ERRORS as error:
        failure = transport_failure(error, origin.authority, timeouts, dict.fromkeys(timeouts, ""))
        raise (
            failure if not isinstance(failure, CallTimeout) else EngineUnavailable(failure.message)
        ) from error
    finally:
        await client.close()


def _without_places(url: str) -> str:
    return url.partition("#")[0].replace("{", "%7B").replace("}", "%7D")


def _marks(headers: object) -> Headers:
    given: dict[str, str] = dict(headers.items())  # type: ignore[attr-defined]
    found = {"If-None-Match": given.get("etag", ""), "If-Modified-Since": given.get("last-modified", "")}
    return tuple((name.encode(), value.encode("latin-1")) for name, value in found.items() if value)


def fetch_now(url: str) -> bytes:
    """Get a document where no event loop runs."""
    from enginehost.errors import EngineHostError

    try:
        data = asyncio.run(fetch(url)).data
    except ConfigError:
        raise
    except EngineHostError as error:
        raise broken(error.message, hint=str(error.detail.get("hint", ""))) from None
    return data or b""
