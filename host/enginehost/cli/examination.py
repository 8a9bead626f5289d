"""Everything ``doctor`` looks at, in the order in which one would."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from enginehost.auth import Authenticator
from enginehost.cli import surroundings
from enginehost.cli.findings import Finding, Grade, doubtful, fine, of_diagnostic, of_error, wrong
from enginehost.cli.provenance import given_settings
from enginehost.cli.source import Where, require_folder
from enginehost.errors import ConfigError, EngineHostError, InvalidRequest
from enginehost.host import Host
from enginehost.known_classes import other_catalog_type
from enginehost.plugins import PluginRegistry
from enginehost.policy import policy_for
from enginehost.settings import AuditSettings, HostSettings, load_settings


async def examine(where: Where) -> list[Finding]:
    """The findings about a folder and this machine, or about a running host."""
    if where.url:
        return await _running_host(where)
    found = list(surroundings.program())
    settings = _settings(where, found)
    found += surroundings.http(settings)
    found.append(await surroundings.databus(settings))
    found += surroundings.audit(settings)
    found += surroundings.machine(settings, where.folder)
    return found + await _files(where.folder, settings)


def _settings(where: Where, found: list[Finding]) -> HostSettings:
    try:
        settings = load_settings(where.folder, config=where.config)
        found += given_settings(settings, os.environ)
    except ConfigError as error:
        found.append(of_error("settings", error))
        found.append(doubtful("settings", "what follows is said of the default settings"))
        return HostSettings()
    found += [*_callers(settings), _policy(settings)]
    return settings


def _callers(settings: HostSettings) -> Iterator[Finding]:
    try:
        Authenticator(settings)
    except ConfigError as error:
        yield of_error("access", error)
    names = [token.name for token in settings.tokens]
    issuers = [one.issuer for one in settings.oidc]
    if settings.authenticates:
        yield fine(
            "access", f"tokens of {', '.join(names) or 'nobody'}; issuers {', '.join(issuers) or 'none'}"
        )
    else:
        yield fine("access", "no tokens and no issuers: every caller is anonymous")


def _policy(settings: HostSettings) -> Finding:
    try:
        policy = policy_for(settings)
    except ConfigError as error:
        return of_error("policy", error)
    rules = len(policy.written.rules)
    return fine("policy", f"{policy.origin}: default {policy.written.default}, {rules} rules")


async def _files(folder: Path, settings: HostSettings) -> list[Finding]:
    try:
        require_folder(folder)
    except InvalidRequest as error:
        return [*_plugins(PluginRegistry()), wrong("files", error.message, str(error.detail.get("hint", "")))]
    # who may call and what is recorded has been looked at, and a mistake there hides none in the files
    settings = settings.model_copy(update={"policy": None, "audit": AuditSettings()})
    host = Host(folder, None, settings=settings, watch=False)
    try:
        async with host:
            states = Counter(str(record.state) for record in host.catalog.records.values())
            found = list(_plugins(host.registry))
            summary = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"
            found.append(fine("files", f"{folder}: {len(host.catalog)} functions; engines: {summary}"))
            if not states:
                found.append(
                    doubtful("files", f"{folder} holds no smss file", "`enginehost new python hello`")
                )
            found += [of_diagnostic("files", one) for one in host.problems() if one.code != "plugin"]
    except ConfigError as error:
        return [of_error("host", error)]
    return found


def _plugins(registry: PluginRegistry) -> Iterator[Finding]:
    guests = sorted({a.distribution for a in registry.aliases() if a.distribution != "enginehost"})
    yield fine("plugins", ", ".join(guests) or "none besides the built-in engines")
    for problem in registry.problems:
        yield doubtful(
            "plugins", f"{problem.distribution}, {problem.entry_point}: {problem.message}", problem.hint
        )


def _of_host(problem: dict[str, str]) -> Finding:
    found = wrong if problem["severity"] == "error" else doubtful
    return found(problem["code"], problem["message"], problem["hint"])


async def _running_host(where: Where) -> list[Finding]:
    from enginehost.cli.remote import RemoteSource

    async with RemoteSource(where.url or "", where.token) as source:
        status = await source.status()
        found = [
            Finding("host", Grade.OK if status == "ready" else Grade.WARNING, f"{source.url} is {status}")
        ]
        try:
            functions, engines = await source.functions(()), await source.engines()
            problems = await source.problems()
        except EngineHostError as error:
            return [*found, wrong("access", error.message, str(error.detail.get("hint", "")))]
    found.append(fine("functions", f"{len(functions)} that this caller may view"))
    found += [_of_host(one) for one in problems]
    for engine in engines:
        if engine["state"] in ("failed", "stale"):
            failed = engine["state"] == "failed" and other_catalog_type(engine["kind"]) is None
            grade = Grade.ERROR if failed else Grade.WARNING
            hint = "`enginehost validate` on that machine shows the place"
            found.append(
                Finding("engines", grade, f"{engine['id']} is {engine['state']}: {engine['reason']}", hint)
            )
    return found
