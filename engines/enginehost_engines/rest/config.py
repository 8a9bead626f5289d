"""The smss keys of the REST engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar, cast, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, model_validator

from enginehost.config import BadValue, EngineConfig
from enginehost.errors import ConfigError
from enginehost_engines.rest.headers import check_header, check_headers
from enginehost_engines.rest.media import check_charset
from enginehost_engines.rest.pagination import Pagination
from enginehost_engines.rest.placement import check_places
from enginehost_engines.rest.response import make_selector
from enginehost_engines.rest.url import parse

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
"""The HTTP methods an engine may use."""

QueryStyle = Literal["exploded", "joined", "deepObject", "indexed"]
"""How a list or an object stands in a query or form: ``k=1&k=2``, ``k=1,2``, ``k[a]=1`` or ``k[0][a]=1``."""

FollowRedirects = Literal["never", "same-origin", "any-method"]
"""Which redirects are followed; all of them only within the origin of the URL."""

AuthKind = Literal[
    "none",
    "api_key",
    "bearer",
    "basic",
    "oauth2_client_credentials",
    "oauth2_refresh_token",
    "oauth2_password",
    "sigv4",
    "mtls",
    "caller",
]
"""The ways to prove who calls the remote service."""

ClientMethod = Literal["basic", "post"]
"""How a client proves itself to a token endpoint."""

RetryMethods = Literal["idempotent", "any"]
"""What is sent again: what may come twice by its method or its annotations, or everything."""


Value = TypeVar("Value")


def _checked(check: Callable[[Value], object], value: Value) -> Value:
    try:
        check(value)
    except ConfigError as error:
        raise BadValue(error.message, hint=error.hint, reason=error.reason, key=error.key) from None
    return value


def _passing(check: Callable[[Any], object]) -> AfterValidator:
    """A validator that lets pass what ``check`` does: every key is checked, whatever is wrong with others."""
    return AfterValidator(lambda value: _checked(check, value))


def _check_header_name(name: str) -> None:
    check_header(name.strip(), "", "API_KEY_HEADER_NAME")


def _check_schema(schema: Mapping[str, Any]) -> None:
    from enginehost.validation import Validator

    try:
        Validator(schema)
    except ConfigError as error:
        reason = error.message.rpartition(": ")[2]
        hint = "types are: string, integer, number, boolean, array, object, null"
        raise ConfigError(
            f"RESPONSE_SCHEMA is no JSON Schema: {reason}", hint=hint, reason="bad-schema"
        ) from None


def _hosts(value: Any) -> Any:
    """Host names in lower case, from a list or from words with commas between."""
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list):
        return words
    return [str(word).strip().lower() for word in cast("list[Any]", words) if str(word).strip()]


def _check_token_url(url: str) -> None:
    try:
        endpoint = parse(url)
    except ConfigError as error:
        message = error.message.replace("API_ENDPOINT_URL", "AUTH_TOKEN_URL")
        raise ConfigError(message, hint=error.hint, reason=error.reason, key="AUTH_TOKEN_URL") from None
    if endpoint.names:
        message = "AUTH_TOKEN_URL holds {}, but no parameter can be in it"
        raise ConfigError(message, key="AUTH_TOKEN_URL", reason="bad-url")


def _check_proxy(url: SecretStr) -> None:
    split = urlsplit(url.get_secret_value().strip())
    if url.get_secret_value().strip() != "none" and (
        split.scheme not in ("http", "https") or not split.hostname
    ):
        hint = "write http://host:port, or none"
        raise ConfigError("PROXY_URL is no URL of a proxy", hint=hint, key="PROXY_URL", reason="bad-url")


def _without_case(*words: str) -> BeforeValidator:
    by_fold = {word.casefold(): word for word in words}

    def find(value: Any) -> Any:
        return by_fold.get(value.strip().casefold(), value) if isinstance(value, str) else value

    return BeforeValidator(find)


class RestConfig(EngineConfig):
    """What a smss file says about a REST endpoint."""

    api_endpoint_url: Annotated[str, AfterValidator(str.strip), _passing(parse)] = Field(
        validation_alias=AliasChoices("API_ENDPOINT_URL", "URL"),
        description="Where to call; `{name}` is filled with the parameter of that name, percent-encoded.",
    )
    http_method: Annotated[Method, _without_case(*get_args(Method))] = Field(
        default="GET", description="GET, HEAD, POST, PUT, PATCH or DELETE."
    )
    headers: Annotated[dict[str, Any], _passing(check_headers)] = Field(
        default_factory=dict, repr=False, description="Headers that every request carries (JSON object)."
    )
    content_type: str | None = Field(
        default=None,
        json_schema_extra={"blank": "keep"},
        description="`json` in any case: JSON body, as when the key is absent; anything else, blank too: form"
        " body. For a `raw` body: its media type.",
    )
    parameter_placement: Annotated[dict[str, str], _passing(check_places)] = Field(
        default_factory=dict,
        description="Where each parameter goes (JSON object: name to `path`, `query`, `header:X`, `cookie`,"
        " `body`, `body:/json/pointer`, `form`, `file`, `raw`). `query:x`, `cookie:x`, `body:x`, `form:x` and"
        " `file:x` give it another name on the wire; `path:encoded` lets a value hold slashes, as %2F."
        " Absent: `path` if in the URL, else `query` for GET, HEAD, DELETE, else `body`.",
    )
    query_style: Annotated[QueryStyle, _without_case(*get_args(QueryStyle))] = Field(
        default="exploded",
        description="How lists and objects stand in the query: `exploded` (k=1&k=2; an object as JSON text),"
        " `joined` (k=1,2), `deepObject` (k[a]=1, at any depth) or `indexed` (k[0][a]=1: lists too).",
    )
    form_style: Annotated[QueryStyle, _without_case(*get_args(QueryStyle))] = Field(
        default="exploded", description="How they stand in a form body; the same words."
    )
    body_constants: dict[str, Any] = Field(
        default_factory=dict,
        repr=False,
        description="What every body holds besides the parameters (JSON object); `body:/pointer` fills it.",
    )
    response_path: Annotated[str | None, _passing(make_selector)] = Field(
        default=None,
        description="The part of a JSON answer that is the result: a JSON Pointer when it starts with `/`,"
        " else a JMESPath expression. In a stream it applies to each item; items without it are left out.",
    )
    response_schema: Annotated[dict[str, Any], _passing(_check_schema)] | None = Field(
        default=None,
        description="JSON Schema of the result: of what RESPONSE_PATH finds, of the list that PAGINATION"
        " joins, of each item of a stream. What does not fit is an error. Without FUNCTION_RESULT callers see"
        " it.",
    )
    response_charset: Annotated[str, _passing(check_charset)] | None = Field(
        default=None,
        description="The charset of the endpoint's text, where it declares a wrong one, or none and it is not"
        " UTF-8.",
    )
    pagination: Pagination | None = Field(
        default=None,
        description='How the parts of a long answer follow each other (JSON object): `{"style": "link"}`,'
        ' `{"style": "cursor", "cursor": "/next", "parameter": "after"}`, `{"style": "page", "parameter":'
        ' "page"}`, or `offset`; `items` says where the items are, `max_pages` (100) and `max_items` (10000)'
        " when to stop.",
    )
    cache_seconds: float = Field(
        default=0.0,
        ge=0,
        description="How long an answer to GET or HEAD is used for equal calls, in seconds, unless the"
        " service says a shorter time; then it is asked whether it changed (`ETag`, `Last-Modified`).",
    )
    auth: Annotated[AuthKind, _without_case(*get_args(AuthKind))] | None = Field(
        default=None,
        description="`none`, `api_key`, `bearer`, `basic`, `oauth2_client_credentials`,"
        " `oauth2_refresh_token`, `oauth2_password`, `sigv4`, `mtls` or `caller` (what the caller showed the"
        " host); absent: by which of the credentials is given.",
    )
    api_key_header_name: Annotated[str, _passing(_check_header_name)] = Field(
        default="X-API-Key", description="The header that carries the API key."
    )
    api_key_value: SecretStr | None = Field(default=None, description="The API key.")
    auth_token: SecretStr | None = Field(default=None, description="The token of `bearer`.")
    auth_username: str | None = Field(
        default=None, description="The user name of `basic` and `oauth2_password`."
    )
    auth_password: SecretStr | None = Field(
        default=None, description="The password of `basic` and `oauth2_password`."
    )
    auth_token_url: Annotated[str, AfterValidator(str.strip), _passing(_check_token_url)] | None = Field(
        default=None, description="Where tokens of the `oauth2_…` kinds are got."
    )
    auth_client_id: str | None = Field(default=None, description="The name of this client there.")
    auth_client_secret: SecretStr | None = Field(
        default=None, description="Its secret; absent: a public client, which only says its name."
    )
    auth_client_method: Annotated[ClientMethod, _without_case(*get_args(ClientMethod))] = Field(
        default="basic",
        description="How the secret travels to the token endpoint: `basic` (header) or `post` (in the form).",
    )
    auth_scope: str | None = Field(default=None, description="The scopes asked for, blanks between.")
    auth_audience: str | None = Field(
        default=None, description="The audience asked for, where the token endpoint wants one."
    )
    auth_refresh_token: SecretStr | None = Field(
        default=None,
        description="The refresh token of `oauth2_refresh_token`. Where the service gives another with each"
        " token, that is used until the engine is closed.",
    )
    auth_timeout_seconds: float = Field(default=10.0, gt=0, description="Seconds a token may take to come.")
    auth_aws_region: str | None = Field(default=None, description="The region of `sigv4`: eu-central-1.")
    auth_aws_service: str | None = Field(
        default=None, description="The service of `sigv4`, by its name in signatures: `execute-api`, `s3`."
    )
    auth_aws_access_key_id: str | None = Field(
        default=None,
        description="The access key of `sigv4`; absent: what AWS's own tools would use where the host runs"
        " (environment, profile, role).",
    )
    auth_aws_secret_access_key: SecretStr | None = Field(
        default=None, description="The secret of that access key."
    )
    auth_aws_session_token: SecretStr | None = Field(
        default=None, description="The session token, where the access key is a temporary one."
    )
    auth_client_cert: str | None = Field(
        default=None,
        description="PEM file with the client certificate of `mtls` (and its chain), relative to the smss"
        " file; it goes along with the other kinds too. A renewed file is taken up at once.",
    )
    auth_client_key: str | None = Field(
        default=None, description="PEM file with its private key, where that is not in AUTH_CLIENT_CERT."
    )
    auth_client_key_password: SecretStr | None = Field(
        default=None, description="The password of that key, if it has one."
    )
    tls_ca_file: str | None = Field(
        default=None,
        description="PEM file, relative to the smss file, with the authorities that are trusted besides"
        " the system's.",
    )
    proxy_url: Annotated[SecretStr, _passing(_check_proxy)] | None = Field(
        default=None,
        description="The proxy, `http://…` or `https://…`, or `none` for a direct connection; absent: as"
        " HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY say where the host runs. Needs the setting"
        " private_networks.",
    )
    http2: bool = Field(
        default=False,
        description="HTTP/2 where the endpoint speaks it (https only; needs the extra `http2`).",
    )
    max_connections: int = Field(
        default=1000,
        gt=0,
        description="Connections at once. Engines with equal values of this key and the next two share them.",
    )
    max_connections_per_host: int = Field(
        default=100, gt=0, description="Requests at once to the host; further ones wait for a place."
    )
    keep_alive_seconds: float = Field(
        default=15.0, ge=0, description="Seconds a connection is kept for the next request."
    )
    retries: int = Field(
        default=0,
        ge=0,
        le=20,
        description="How often a request is sent again, within the time of the call: after 429, 502, 503 and"
        " 504, after a connection that breaks or a silence, and, whatever the method, where no connection"
        " came about.",
    )
    retry_methods: Annotated[RetryMethods, _without_case(*get_args(RetryMethods))] = Field(
        default="idempotent",
        description="What RETRIES repeats: `idempotent` (GET, HEAD, PUT, DELETE, and functions whose"
        " annotations say idempotent or readOnly) or `any`.",
    )
    retry_backoff_seconds: float = Field(
        default=0.5,
        gt=0,
        description="The longest wait before the first repetition, twice as long before each further one (at"
        " most 60); the wait is drawn evenly from 0 to that. `Retry-After` comes on top.",
    )
    breaker_failures: int = Field(
        default=10,
        ge=0,
        description="After so many failures in a row (no connection, no answer, 502, 503, 504) calls are"
        " refused at once; 0: never. Engines with one host and equal values count together.",
    )
    breaker_seconds: float = Field(
        default=15.0, gt=0, description="Seconds until one call may try again whether the service is back."
    )
    connect_timeout_seconds: float = Field(
        default=10.0, gt=0, description="Seconds until a connection stands, at most what is left of the call."
    )
    read_timeout_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Seconds the endpoint may be silent; absent: what is left of the call, else 60.",
    )
    follow_redirects: Annotated[FollowRedirects, _without_case("never", "same-origin", "any-method")] = Field(
        default="same-origin",
        description="Redirects are followed within the scheme, host and port of the URL, or from http to"
        " https there: `same-origin` those of GET and HEAD, and a 303 after any method, which asks for a GET;"
        " `any-method` also those that repeat a POST, PUT, PATCH or DELETE, or drop it; `never` none.",
    )
    redirect_hosts: Annotated[list[str] | str, BeforeValidator(_hosts)] = Field(
        default_factory=list,
        description="Further hosts to which redirects lead (JSON list, or words with commas between): without"
        " headers of the file and without credentials, as GET or HEAD, and never from https to http.",
    )
    max_response_bytes: int = Field(
        default=16 * 2**20,
        gt=0,
        description="Size limit of an answer (of one line or event in a stream), in bytes.",
    )

    @model_validator(mode="after")
    def _check_pages(self) -> Self:
        if self.pagination is not None and self.http_method == "HEAD":
            raise BadValue("PAGINATION: an answer to HEAD has no items", hint="use GET", key="PAGINATION")
        return self

    @model_validator(mode="after")
    def _check_credentials(self) -> Self:
        from enginehost_engines.rest.auth import check_credentials  # it reads this model

        return _checked(check_credentials, self)
