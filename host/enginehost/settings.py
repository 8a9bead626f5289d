"""The host's own settings: what an operator decides, and no dropped file can.

Read, the later over the earlier, from defaults, ``enginehost.yaml``, ``ENGINEHOST_*`` environment
variables and what the program gives (:func:`load_settings`). Durations are seconds; sizes are bytes
or text such as ``10MiB``; relative paths in the file start at the file's folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    ByteSize,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from enginehost.address import format_address, is_loopback, parse_address, parse_peer
from enginehost.auth_settings import OidcSettings, TokenSettings, UserPath, at_home
from enginehost.checked_model import Section, checked, joined
from enginehost.database_place import DATABASE_HINT, read_place
from enginehost.errors import ConfigError
from enginehost.mcp_settings import McpSettings
from enginehost.policy_rules import Patterns, PolicyRules, Word, Words, split_commas
from enginehost.settings_layers import (
    PREFIX,
    Layer,
    environment_layer,
    file_layer,
    find_file,
    locate,
    merged,
    override_layer,
)
from enginehost.yaml_document import Place, parse_document

LOOPBACK_INTERFACES = frozenset({"lo", "lo0", "127.0.0.1", "::1", "localhost"})


def _listed(value: Any) -> Any:
    """A list written as text, which is how the environment gives it."""
    if not isinstance(value, str):
        return value
    try:
        return parse_document(value).value
    except ConfigError as error:
        raise ValueError(error.message) from None


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Size = Annotated[ByteSize, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]


class HttpSettings(Section):
    """The HTTP face."""

    shorthand: ClassVar[str] = "address"
    enabled: bool = Field(default=True, description="Whether the host listens for HTTP.")
    address: str = Field(
        default="127.0.0.1:8484",
        description="HOST:PORT to listen on; port 0 is a free one. Beyond loopback only with tokens or oidc.",
    )
    max_body_bytes: Size = Field(default=ByteSize(10 << 20), description="The largest request body.")
    max_connections: Count = Field(
        default=10_000,
        description="Connections at once; never more than half of the files that the host may open.",
    )
    allowed_hosts: Words = Field(
        default=(), description="Further names that a Host header may hold (loopback names always may)."
    )
    allowed_origins: Words = Field(
        default=(), description="Origins (https://app.example) whose pages may call; none by default."
    )
    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s?#]+$",
        description="The URL under which clients reach the host, where a proxy stands before it:"
        " what A2A's agent cards name. By default the scheme and Host header of the request.",
    )
    docs: bool = Field(default=True, description="Whether /docs is served.")
    public_metrics: bool = Field(
        default=False, description="Whether /metrics answers without a token where tokens are set up."
    )

    @field_validator("address", mode="before")
    @classmethod
    def _is_address(cls, value: Any) -> str:
        return format_address(*parse_address(str(value)))

    @property
    def host(self) -> str:
        """The host part of the address."""
        return parse_address(self.address)[0]

    @property
    def port(self) -> int:
        """The port of the address; 0 is one the system chooses."""
        return parse_address(self.address)[1]


class DatabusSettings(Section):
    """The databus face."""

    shorthand: ClassVar[str] = "enabled"
    enabled: bool | Literal["auto"] = Field(
        default="auto", description="auto: where the DDS library is there; true: or the host does not start."
    )
    domain: int = Field(default=0, ge=0, le=232, description="The DDS domain.")
    interface: str = Field(default="lo", min_length=1, description="The network interface; lo is loopback.")
    service: str = Field(
        default="enginehost",
        min_length=1,
        max_length=128,
        description="The service name this host advertises.",
    )
    transport: str = Field(
        default="cyclone", min_length=1, description="cyclone, or a transport that a plugin adds."
    )
    tags: Words = Field(
        default=(), description="Only functions that have one of these tags are on the bus; absent: all."
    )
    peers: Words = Field(
        default=(),
        description="Names or addresses (:PORT may follow) to look for participants at, where multicast does "
        "not reach them.",
    )
    fragment_bytes: int | None = Field(
        default=None,
        ge=1_000,
        le=60_000,
        description="The largest piece in one datagram; absent: 60,000 on loopback, else 1,300 (one frame).",
    )
    lease: float = Field(
        default=2.0,
        ge=1,
        le=3_600,
        description="Seconds after which a participant that is not heard of has left.",
    )
    max_request_bytes: Size = Field(
        default=ByteSize(10 << 20), description="The largest arguments of a call from the databus, as JSON."
    )
    key_file: UserPath | None = Field(
        default=None,
        description="The key that signs; absent: databus/key.pem in state_dir, if that is there.",
    )
    trust_file: UserPath | None = Field(
        default=None, description="The keys that are trusted; absent: databus/trusted.yaml in state_dir."
    )
    sign: bool | Literal["auto"] = Field(
        default="auto", description="auto: sign where there is a key and the interface is not loopback."
    )
    accept: Literal["auto", "any", "trusted"] = Field(
        default="auto",
        description="Whose functions enter the catalog: any peer's, or those that a trusted key signed; "
        "auto: any on loopback, else trusted.",
    )
    allow_unsigned: Words = Field(
        default=(), description="Functions (names, or patterns with * and ?) that unsigned requests may call."
    )
    events: bool = Field(
        default=True, description="Whether calls, functions and the log are told to monitors that listen."
    )
    event_values: bool = Field(
        default=False,
        description="Whether monitors are told arguments, results, questions and answers too.",
    )
    log_level: Literal["auto", "debug", "info", "warning", "error", "off"] = Field(
        default="auto",
        description="The least severe line of the log that monitors are told; off: none; "
        "auto: warning on loopback, else off.",
    )
    profiles: Annotated[tuple[Literal["genesis1", "genesis2"], ...], BeforeValidator(split_commas)] = Field(
        default=("genesis1",), description="genesis1 holds always; genesis2 adds the topics of Genesis 0.3."
    )

    @field_validator("log_level", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: Any) -> Any:
        return "off" if value is False else value.lower() if isinstance(value, str) else value

    directory: bool = Field(
        default=True,
        description="Whether functions of other hosts enter the catalog, and can be called here.",
    )
    let_in_services: Patterns | None = Field(
        default=None, description="Patterns: only these services of others; absent: all."
    )
    let_in_functions: Patterns | None = Field(
        default=None,
        description="Patterns: only these functions of others, by name or service.name; absent: all.",
    )
    let_in_tags: Patterns | None = Field(
        default=None, description="Patterns: only functions of others with one of these tags; absent: all."
    )

    @field_validator("peers")
    @classmethod
    def _are_peers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for peer in value:
            parse_peer(peer)
        return value

    @field_validator("let_in_services", "let_in_functions", "let_in_tags", mode="before")
    @classmethod
    def _lets_something_in(cls, value: Any) -> Any:
        """A list whose entries were all taken out must not come to mean *all*."""
        if not value or (isinstance(value, str) and not value.strip(" ,")):
            raise ValueError("must not be empty: leave the key out to let in all")
        return value


class PolicySettings(PolicyRules):
    """Who may view and call what: a file of its own (read again when it changes), or the rules here."""

    shorthand: ClassVar[str] = "file"
    file: UserPath | None = Field(default=None, description="The policy file.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.file is not None and self.model_fields_set & {"default", "rules"}:
            raise ValueError("give either a policy file or the rules, not both")
        if self.file is None and not self.model_fields_set & {"default", "rules"}:
            raise ValueError("give a policy file or rules")
        return self


class AuditSettings(Section):
    """The audit record: who called what, when, with which outcome."""

    shorthand: ClassVar[str] = "path"
    path: UserPath | None = Field(
        default=None, description="The file it is appended to, in a folder that exists; none: not kept."
    )
    values: bool = Field(default=False, description="Whether arguments and results stand in it too.")


class LogSettings(Section):
    """The log, on standard error."""

    shorthand: ClassVar[str] = "level"
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto: console on a terminal, else json."
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least severe line that is written."
    )

    @field_validator("level", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value


class SecretsSettings(Section):
    """Where ``${secret:name}`` in smss files is looked up, after the plugins."""

    shorthand: ClassVar[str] = "folder"
    folder: UserPath | None = Field(
        default=None, description="A folder with one file per secret, as Docker and Kubernetes mount them."
    )
    env_prefix: Word = Field(
        default="ENGINEHOST_SECRET_", description="Environment variables with this prefix hold secrets."
    )


class StoreSettings(Section):
    """The database of sessions."""

    shorthand: ClassVar[str] = "url"
    url: Word | None = Field(
        default=None,
        repr=False,
        description="sqlite:///FILE or postgresql://USER@HOST/NAME; by default $DATABASE_URL, else"
        " sessions.db in state_dir.",
    )
    synchronous: Literal["full", "normal"] = Field(
        default="full",
        description="full: what is stored survives a loss of power; normal: it may lose the last moments then"
        " (never at the end of a process), and is faster.",
    )
    readers: Count = Field(default=4, description="Connections that read at once; one more writes.")
    lock_timeout: Seconds = Field(
        default=5, description="How long to wait for a database that another program has locked."
    )
    lease: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(
        default=15.0,
        description="Seconds after its last sign of life (there are three in that time) for which a host"
        " keeps its turns; then another takes them over.",
    )
    retention: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Days after their last change for which sessions are kept; null: for ever."
    )

    @field_validator("url")
    @classmethod
    def _is_database(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                read_place(value)
            except ValueError as error:
                raise ValueError(f"{error}; {DATABASE_HINT}") from None
        return value


def _switch(value: Any) -> Any:
    """A word that YAML takes for a truth value."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


RecordChains = Annotated[Literal["off", "on", "values"], BeforeValidator(_switch)]


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """``$XDG_STATE_HOME/enginehost``, or ``~/.local/state/enginehost`` (XDG Base Directory)."""
    base = environ.get("XDG_STATE_HOME", "")
    return Path(base if base.startswith("/") else "~/.local/state") / "enginehost"


def _state_dir() -> Path:
    return at_home(default_state_dir(os.environ))


def _only_reachable_here(data: Mapping[str, Any]) -> bool:
    http, databus = data.get("http"), data.get("databus")
    web = not isinstance(http, HttpSettings) or not http.enabled or is_loopback(http.host)
    bus = (
        not isinstance(databus, DatabusSettings)
        or not databus.enabled
        or databus.interface in LOOPBACK_INTERFACES
    )
    return web and bus


class HostSettings(Section):
    """All settings of a host. Frozen; ``HostSettings()`` has the defaults."""

    http: HttpSettings = Field(
        default=HttpSettings(), description="The HTTP face; off, or HOST:PORT, will do."
    )
    mcp: McpSettings = Field(default=McpSettings(), description="The MCP face; off will do.")
    databus: DatabusSettings = Field(default=DatabusSettings(), description="The databus face; off will do.")
    drain_seconds: float = Field(
        default=10, ge=0, allow_inf_nan=False, description="How long running calls may go on at a stop."
    )
    open_timeout: Seconds = Field(default=60, description="How long an engine may take to open.")
    default_timeout: Seconds | None = Field(
        default=60, description="A call's deadline where neither file nor caller sets one; null: none."
    )
    max_result_bytes: Size = Field(
        default=ByteSize(16 << 20), description="The largest result that a face sends, as JSON."
    )
    max_in_flight: Count = Field(
        default=10_000, description="Calls that run or wait at once in the whole host."
    )
    max_workers: Count = Field(
        default_factory=lambda: max(4, 2 * (os.cpu_count() or 1)),
        description="Worker processes at once; by default twice the processors, at least 4.",
    )
    max_programs: Count = Field(
        default=64, description="Programs of Command functions that run at once; others wait."
    )
    in_process_python: bool = Field(
        default=False,
        description="Whether a smss file may run Python inside the host (PYTHON_ISOLATION=none).",
    )
    debuggable: bool = Field(
        default=False,
        description="Whether programs of the host's user (debuggers, functions too) may read the memory and"
        " the environment of a running host. (Linux)",
    )
    private_networks: bool = Field(
        default_factory=_only_reachable_here,
        description="Whether engines may call private addresses; by default while all faces are on loopback.",
    )
    allow_nan: bool = Field(
        default=False,
        description="Whether a face sends NaN and infinities (as null); else such a result is refused.",
    )
    tokens: Annotated[tuple[TokenSettings, ...], BeforeValidator(_listed)] = Field(
        default=(), description="Static bearer tokens."
    )
    oidc: Annotated[tuple[OidcSettings, ...], BeforeValidator(_listed)] = Field(
        default=(), description="Issuers whose JWTs are accepted."
    )
    policy: PolicySettings | None = Field(
        default=None,
        description="Who may view and call what. Absent: everyone everything while all faces are on loopback "
        "and neither tokens nor oidc are set up; else only authenticated callers, everything.",
    )
    audit: AuditSettings = Field(default=AuditSettings(), description="The audit record; a path will do.")
    log: LogSettings = Field(default=LogSettings(), description="The log; a level will do.")
    secrets: SecretsSettings = Field(default=SecretsSettings(), description="Where secrets are looked up.")
    store: StoreSettings = Field(
        default=StoreSettings(), description="The database of sessions; a URL will do."
    )
    record_chains: RecordChains = Field(
        default="off",
        description="Whether the steps of chains are kept in the database of sessions, for `enginehost "
        "chains`, `replay` and `why`; values: with what went in and came out.",
    )
    chain_days: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=7, description="Days after their last step for which chains are kept; null: for ever."
    )
    state_dir: UserPath = Field(
        default_factory=_state_dir, description="Where the host keeps its id; $XDG_STATE_HOME/enginehost."
    )
    _config_file: Path | None = PrivateAttr(default=None)

    @property
    def config_file(self) -> Path | None:
        """The ``enginehost.yaml`` these settings came from."""
        return self._config_file

    @property
    def authenticates(self) -> bool:
        """Whether callers can show a proof: tokens or issuers are set up."""
        return bool(self.tokens or self.oidc)

    @property
    def on_loopback(self) -> bool:
        """Whether no face is reachable from another machine."""
        return _only_reachable_here({"http": self.http, "databus": self.databus})

    @model_validator(mode="after")
    def _issuers_differ(self) -> Self:
        issuers = [one.issuer for one in self.oidc]
        if len(set(issuers)) < len(issuers):
            raise ValueError("oidc: one issuer is listed twice; list its audiences together")
        if len({one.subject_prefix for one in self.oidc}) < len(issuers):
            raise ValueError("oidc: with several issuers each needs a subject_prefix of its own")
        return self


def load_settings(
    folder: str | Path | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    **overrides: Any,
) -> HostSettings:
    """The settings of a host that serves ``folder``.

    The file is ``config``, or ``$ENGINEHOST_CONFIG``, or the first ``enginehost.yaml`` of: beside
    ``folder``, in the current directory. A setting has its name in ``environ`` (by default the
    process's) with the prefix ``ENGINEHOST_`` and ``__`` between section and key; ``overrides`` are
    named likewise (``http__docs=False``) or by section, and ``None`` counts as not given.

    Raises :class:`~enginehost.errors.ConfigError` with the places of all that is wrong.
    """
    environ = os.environ if environ is None else environ
    file = config or (Path(given) if (given := environ.get(f"{PREFIX}CONFIG")) else find_file(folder))
    wrong: list[ConfigError] = []
    layers = [
        Layer({"state_dir": default_state_dir(environ)}, {}),
        *([file_layer(HostSettings, file)] if file else []),
        environment_layer(HostSettings, environ, wrong.append),
        override_layer(HostSettings, overrides),
    ]
    try:
        settings = checked(HostSettings, merged(layers), lambda loc: locate(layers, loc) or Place(""))
    except ConfigError as error:
        raise joined([error, *wrong]) from None
    if wrong:
        raise joined(wrong)
    settings._config_file = file
    return settings
