"""Everything ``doctor`` looks at, in the order in which one would."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from enginehost.auth import Authenticator
from enginehost.cli import surroundings
from enginehost.cli.findings import Finding, Grade, doubtful, fine, of_diagnostic, of_error, wrong
from enginehost.cli.output import counted
from enginehost.cli.provenance import given_settings
from enginehost.cli.secrecy import learn_from
from enginehost.cli.source import Where, require_folder
from enginehost.contributions import collect
from enginehost.databus.config import config_of, trust_file
from enginehost.databus.keys import signing_key
from enginehost.databus.trust import MISSING_TRUST_HINT, missing_trust, read_trust
from enginehost.engine import EngineState
from enginehost.errors import ConfigError, EngineHostError, InvalidRequest
from enginehost.host import Host
from enginehost.plugins import PluginRegistry
from enginehost.policy import policy_for
from enginehost.policy_words import idle_callers, idle_functions, unknown_faces
from enginehost.settings import AuditSettings, HostSettings, load_settings
from enginehost.settings_doubts import DOUBTS, doubts

_TOLD = {"plugin", *DOUBTS}
"""Codes of problems of a host that stand in areas of their own."""


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
    found += await _files(where.folder, settings)
    areas = list(dict.fromkeys(one.area for one in found))
    return sorted(found, key=lambda one: areas.index(one.area))


def _settings(where: Where, found: list[Finding]) -> HostSettings:
    try:
        settings = load_settings(where.folder, config=where.config)
        found += given_settings(settings, os.environ)
    except ConfigError as error:
        found += of_error("settings", error)
        found.append(doubtful("settings", "what follows is said of the default settings"))
        return HostSettings()
    found += [of_diagnostic("settings", one) for one in doubts(settings, where.folder)]
    found += [*_callers(settings), *_keys(settings), *_policy(settings)]
    return settings


def _callers(settings: HostSettings) -> Iterator[Finding]:
    try:
        Authenticator(settings)
    except ConfigError as error:
        yield from of_error("access", error)
        return
    names = [token.name for token in settings.tokens]
    issuers = [one.issuer for one in settings.oidc]
    if settings.authenticates:
        yield fine(
            "access", f"tokens of {', '.join(names) or 'nobody'}; issuers {', '.join(issuers) or 'none'}"
        )
    else:
        yield fine("access", "no tokens and no issuers: every caller is anonymous")


def _keys(settings: HostSettings) -> Iterator[Finding]:
    """With what the host signs on the databus, and whose signatures count."""
    if settings.databus.enabled is False:
        return
    try:
        key, trusted = signing_key(config_of(settings)), read_trust(trust_file(settings)).keys
    except ConfigError as error:
        yield from of_error("access", error)
        return
    if key or trusted:
        signs = f"signs with the key {key.id}" if key else "signs nothing"
        yield fine("access", f"databus: {signs}; {counted(len(trusted), 'trusted key')}")
    if message := missing_trust(config_of(settings)):
        yield doubtful("access", f"databus: {message}", MISSING_TRUST_HINT)


def _policy(settings: HostSettings) -> Iterator[Finding]:
    try:
        policy = policy_for(settings)
    except ConfigError as error:
        yield from of_error("policy", error)
        return
    rules = counted(len(policy.written.rules), "rule")
    yield fine("policy", f"{policy.origin}: default {policy.written.default}, {rules}")


def _words_of_policy(settings: HostSettings, host: Host) -> list[Finding]:
    """The words of the policy that mean nothing here."""
    try:
        policy = policy_for(settings)
    except ConfigError:
        return []  # it has been told
    declared = (record.declared for record in host.catalog.records.values() if record.declared)
    found = unknown_faces(policy, collect(PluginRegistry()).faces)
    found += idle_functions(policy, [*(entry.signature for entry in host.catalog), *declared])
    try:
        keys = read_trust(trust_file(settings)).keys
    except ConfigError:
        return [of_diagnostic("policy", one) for one in found]  # it has been told
    if (settings.tokens or keys) and not settings.oidc:
        found += idle_callers(policy, settings.tokens, keys)
    return [of_diagnostic("policy", one) for one in found]


async def _files(folder: Path, settings: HostSettings) -> list[Finding]:
    try:
        require_folder(folder)
    except InvalidRequest as error:
        database = await surroundings.sessions(settings, needed=settings.store.url is not None)
        return [
            *_plugins(PluginRegistry()),
            database,
            wrong("files", error.message, str(error.detail.get("hint", ""))),
        ]
    # who may call and what is recorded has been looked at, and a mistake there hides none in the files
    with_policy = settings
    settings = settings.model_copy(update={"policy": None, "audit": AuditSettings()})
    host = Host(folder, None, settings=settings, watch=False, ahead=False)
    learn_from(host.redactor)
    try:
        async with host:
            states = Counter(str(record.state) for record in host.catalog.records.values())
            found = list(_plugins(host.registry))
            summary = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"
            functions = counted(len(host.catalog), "function")
            if models := len(host.models()):
                functions += f", {counted(models, 'model')}"
            found.append(fine("files", f"{folder}: {functions}; engines: {summary}"))
            if len(host.catalog):
                text = "Python code has been read, not run: `enginehost validate --load` runs it too"
                found.append(fine("files", text))
            if not states:
                found.append(
                    doubtful("files", f"{folder} holds no smss file", "`enginehost new python hello`")
                )
            found += [of_diagnostic("files", one) for one in host.problems() if one.code not in _TOLD]
            found += [
                doubtful("files", f"{record.title}: {record.shown_reason}", "")
                for record in host.catalog.records.values()
                if record.state is EngineState.READY and record.shown_reason
            ]
            found += _words_of_policy(with_policy, host)
            needed = bool(host.agent_specs()) or settings.store.url is not None
            found.append(await surroundings.sessions(settings, needed=needed))
    except ConfigError as error:
        return of_error("host", error)
    return found


def _plugins(registry: PluginRegistry) -> Iterator[Finding]:
    guests = sorted({a.distribution for a in registry.aliases() if a.distribution != "enginehost"})
    yield fine("plugins", ", ".join(guests) or "none besides the built-in engines")
    for problem in registry.problems:
        yield doubtful(
            "plugins", f"{problem.distribution}, {problem.entry_point}: {problem.message}", problem.hint
        )


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
    found.append(fine("functions", f"{counted(len(functions), 'function')} that this caller may view"))
    if problems is None:
        hint = "show a token: --token, or the variable ENGINEHOST_TOKEN"
        found.append(doubtful("problems", "not looked at: this host tells them to known callers only", hint))
    found += [_of_problem("host", one) for one in problems or ()]
    return found + [one for engine in engines for one in _of_engine(engine)]


def _of_engine(engine: dict[str, Any]) -> Iterator[Finding]:
    """What keeps an engine of a running host from serving, and what else is wrong with it."""
    state, problems = engine["state"], engine.get("problems") or []
    reason: dict[str, Any] = {}
    if state in ("failed", "stale", "unsupported", "conflict"):
        codes = ("unsupported", "name-conflict")
        reason = next((one for one in problems if one["severity"] == "error" or one["code"] in codes), {})
        unserved = state == "failed" or (state == "unsupported" and reason.get("severity") == "error")
        hint = reason.get("hint", "`enginehost validate --load` on that machine shows more")
        text = f"{engine['id']} is {state}: {engine['reason']}"
        yield Finding(
            "engines", Grade.ERROR if unserved else Grade.WARNING, text, hint, reason.get("where", "")
        )
    elif state == "ready" and engine["reason"]:
        yield doubtful("engines", f"{engine['id']} is {state}: {engine['reason']}", "")
    yield from (_of_problem("engines", one, f"{engine['id']}: ") for one in problems if one is not reason)


def _of_problem(area: str, problem: dict[str, Any], before: str = "") -> Finding:
    grade = Grade.ERROR if problem["severity"] == "error" else Grade.WARNING
    where = problem.get("where", "")
    return Finding(area, grade, f"{before}{problem['message']}", problem["hint"], where)
