"""From what a file says to the way to its service."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from enginehost.errors import EngineUnavailable
from enginehost_engines.rest.auth import make_prover
from enginehost_engines.rest.retries import IDEMPOTENT, Retries
from enginehost_engines.rest.sending import Way
from enginehost_engines.rest.transport import Client, PoolSettings

if TYPE_CHECKING:
    from enginehost.engine import EngineContext
    from enginehost_engines.rest.config import RestConfig
    from enginehost_engines.rest.proof import Prover
    from enginehost_engines.rest.request import Plan
    from enginehost_engines.rest.tls import TlsFiles
    from enginehost_engines.rest.url import Origin


async def open_way(config: RestConfig, context: EngineContext, plan: Plan, files: TlsFiles) -> Way:
    """Connections, credentials, repetitions and circuit breaker; :meth:`Way.close` ends it."""
    origin = plan.endpoint.origin
    client = await Client.open(pool_settings(config, context.access.private_networks, files, origin))
    return Way(
        client=client,
        redirects=plan.redirects,
        hosts=frozenset(config.redirect_hosts),
        breaker=client.breaker(origin, config.breaker_failures, config.breaker_seconds),
        retries=Retries(config.retries, config.retry_backoff_seconds, _is_repeatable(config, context, plan)),
        prover=prover_of(config, context, files),
        own_timeouts=(config.connect_timeout_seconds, config.read_timeout_seconds),
        log=context.log,
    )


def prover_of(config: RestConfig, context: EngineContext, files: TlsFiles) -> Prover | None:
    """What proves who calls; tokens are those that others have with the same credentials."""
    return make_prover(config, partial(pool_settings, config, context.access.private_networks, files))


def _is_repeatable(config: RestConfig, context: EngineContext, plan: Plan) -> bool:
    if config.retry_methods == "any" or plan.method in IDEMPOTENT:
        return True
    annotations = context.signature.annotations if context.signature else None
    return annotations is not None and bool(annotations.idempotent or annotations.read_only)


def pool_settings(
    config: RestConfig, private_networks: bool, files: TlsFiles, origin: Origin
) -> PoolSettings:
    """What connections to ``origin`` must be like."""
    settings = PoolSettings.of(origin, private_networks)
    return replace(
        settings,
        secure=settings.secure or bool(config.redirect_hosts),
        proxy=settings.proxy if config.proxy_url is None else _own_proxy(config, private_networks),
        tls=files,
        http2=config.http2,
        connections=config.max_connections,
        per_host=config.max_connections_per_host,
        idle_seconds=config.keep_alive_seconds,
    )


def _own_proxy(config: RestConfig, private_networks: bool) -> str:
    named = config.proxy_url.get_secret_value().strip() if config.proxy_url else "none"
    if named == "none":
        return ""
    if not private_networks:
        reason = "behind a proxy no address can be checked, so PROXY_URL needs the setting private_networks"
        raise EngineUnavailable(reason, reason=reason)
    return named
