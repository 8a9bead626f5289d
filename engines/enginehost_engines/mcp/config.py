"""The smss keys of ``ENGINE_CLASS = MCP``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from enginehost.config import BadValue, EngineConfig
from enginehost.errors import ConfigError
from enginehost_engines.rest.auth import telling_values
from enginehost_engines.rest.headers import check_header, check_headers
from enginehost_engines.rest.url import parse

AuthKind = Literal["none", "api_key", "bearer"]
"""The ways to prove who calls the server."""

_LONGEST_PREFIX = 100


def _without_case(value: Any) -> Any:
    return value.strip().casefold() if isinstance(value, str) else value


def _check_command(command: list[str]) -> list[str]:
    if not command or not command[0].strip():
        raise BadValue("MCP_COMMAND names no program", hint='write ["program", "argument"]')
    if any("\0" in word for word in command):
        raise BadValue("MCP_COMMAND holds a NUL character", hint="leave it out")
    return command


def _check_environment(variables: dict[str, str]) -> dict[str, str]:
    for name, text in variables.items():
        if not name or "=" in name or "\0" in name + text:
            raise BadValue(
                f"MCP_ENV: {name[:80]!r} cannot be set", hint="a name has no = and nothing holds a NUL"
            )
    return variables


def _check_url(url: str) -> str:
    if "{" in url or "}" in url:
        raise BadValue("MCP_URL has a place for a parameter", hint="the address of a server is fixed")
    return _passing(parse, "MCP_URL", url)


def _check_headers(headers: dict[str, Any]) -> dict[str, Any]:
    return _passing(check_headers, "HEADERS", headers)


def _check_header_name(name: str) -> str:
    return _passing(lambda text: check_header(text, "", "API_KEY_HEADER_NAME"), "API_KEY_HEADER_NAME", name)


def _passing(check: Callable[[Any], object], key: str, value: Any) -> Any:
    try:
        check(value)
    except ConfigError as error:
        text = error.message.replace("API_ENDPOINT_URL", key)
        raise BadValue(text, hint=error.hint, reason=error.reason, key=key) from None
    return value


def _check_prefix(prefix: str) -> str:
    if len(prefix) > _LONGEST_PREFIX or not prefix.isprintable():
        raise BadValue(f"MCP_PREFIX has at most {_LONGEST_PREFIX} printable characters", hint="write files_")
    return prefix


class McpConfig(EngineConfig):
    """What a smss file says about an MCP server: how it is reached, and which of its tools are offered."""

    mcp_command: Annotated[list[str], AfterValidator(_check_command)] | None = Field(
        default=None,
        repr=False,
        description="The program that is the server, with its arguments (JSON list of texts); it speaks MCP"
        " on its standard input and output. No shell sees it.",
    )
    mcp_env: Annotated[dict[str, str], AfterValidator(_check_environment)] = Field(
        default_factory=dict,
        repr=False,
        description="Variables of that program (JSON object). Of the host's own it gets only HOME, LANG,"
        " LC_…, LOGNAME, PATH, SHELL, TERM, TMPDIR, TZ and USER.",
    )
    mcp_folder: str = Field(
        default="", description="The folder it runs in, relative to the smss file; absent: that of the file."
    )
    mcp_url: Annotated[str, AfterValidator(str.strip), AfterValidator(_check_url)] | None = Field(
        default=None,
        repr=False,
        description="Where a server listens: streamable HTTP, else HTTP with SSE. In place of MCP_COMMAND.",
    )
    headers: Annotated[dict[str, Any], AfterValidator(_check_headers)] = Field(
        default_factory=dict, repr=False, description="Headers of every request to MCP_URL (JSON object)."
    )
    auth: Annotated[AuthKind, BeforeValidator(_without_case)] | None = Field(
        default=None,
        description="`none`, `api_key` or `bearer`; absent: by which of the credentials is given.",
    )
    api_key_header_name: Annotated[str, AfterValidator(str.strip), AfterValidator(_check_header_name)] = (
        Field(default="X-API-Key", description="The header that carries the API key.")
    )
    api_key_value: SecretStr | None = Field(default=None, description="The API key.")
    auth_token: SecretStr | None = Field(default=None, description="The token of `bearer`.")
    mcp_prefix: Annotated[str, AfterValidator(_check_prefix)] = Field(
        default="", description="What stands before the name of each tool: `files_` makes `files_read`."
    )
    mcp_include: list[str] = Field(
        default_factory=list,
        description="Which tools are offered, by their own names (JSON list; `*` and `?` stand for any:"
        ' `["read_*"]`); absent: all.',
    )
    mcp_exclude: list[str] = Field(
        default_factory=list, description="Which of those are not offered (JSON list, as MCP_INCLUDE)."
    )
    mcp_reconnect_seconds: float = Field(
        default=60.0,
        ge=0.1,
        le=3600,
        description="The longest pause before a lost server is tried again; the first is half a second, each"
        " next one up to twice as long.",
    )
    max_message_bytes: int = Field(
        default=16 * 2**20, ge=1024, description="Size limit of one message of the server, in bytes."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.mcp_command is None) == (self.mcp_url is None):
            key = "MCP_COMMAND" if self.mcp_command is None else "MCP_URL"
            what = "neither MCP_COMMAND nor MCP_URL says" if self.mcp_url is None else "both say"
            hint = 'write MCP_COMMAND = ["program", "argument"], or MCP_URL = https://host/mcp'
            raise BadValue(f"{what} where the server is", hint=hint, key=key, reason="no-server")
        for name, text in self.auth_headers():
            _passing(lambda value, name=name: check_header(name, value, "AUTH"), "AUTH", text)
        return self

    def auth_headers(self) -> Iterator[tuple[str, str]]:
        """Name and value of the header that proves who calls; raises where a credential is missing."""
        given = (("api_key", self.api_key_value), ("bearer", self.auth_token))
        kind = self.auth or next((kind for kind, secret in given if secret is not None), "none")
        if kind == "api_key":
            yield self.api_key_header_name, _needed(self.api_key_value, "API_KEY_VALUE", kind)
        elif kind == "bearer":
            yield "Authorization", f"Bearer {_needed(self.auth_token, 'AUTH_TOKEN', kind)}"

    def secrets(self) -> Iterator[str]:
        """The secrets that stand in the file, as far as one can tell."""
        for secret in (self.api_key_value, self.auth_token):
            if secret is not None:
                yield secret.get_secret_value()
        yield from telling_values(self.headers)
        yield from telling_values(self.mcp_env)
        yield from telling_values(self.mcp_command or [])
        if self.mcp_url is not None:
            from urllib.parse import parse_qs, urlsplit

            yield from telling_values(parse_qs(urlsplit(self.mcp_url).query))


def _needed(secret: SecretStr | None, key: str, kind: str) -> str:
    if secret is None or not secret.get_secret_value():
        hint = f"add {key} = ${{secret:…}}, or write another AUTH"
        raise BadValue(f"{key} is missing, which AUTH = {kind} needs", hint=hint, key=key)
    return secret.get_secret_value()
