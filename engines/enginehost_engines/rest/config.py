"""The smss keys of the REST engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, model_validator

from enginehost.config import BadValue, EngineConfig
from enginehost.errors import ConfigError
from enginehost_engines.rest.headers import check_header, check_headers
from enginehost_engines.rest.placement import check_places
from enginehost_engines.rest.response import make_selector
from enginehost_engines.rest.url import parse

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
"""The HTTP methods an engine may use."""

QueryStyle = Literal["exploded", "joined", "deepObject"]
"""How a list or an object stands in a query: ``k=1&k=2``, ``k=1,2`` or ``k[a]=1``."""

FollowRedirects = Literal["never", "same-origin", "any-method"]
"""Which redirects are followed; all of them only within the origin of the URL."""

AuthKind = Literal["none", "api_key", "bearer", "basic"]
"""The ways to prove who calls the remote service."""


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
    query_style: Annotated[QueryStyle, _without_case("exploded", "joined", "deepObject")] = Field(
        default="exploded",
        description="How lists and objects stand in the query: `exploded` (k=1&k=2; an object as JSON text),"
        " `joined` (k=1,2) or `deepObject` (k[a]=1).",
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
    auth: Annotated[AuthKind, _without_case("none", "api_key", "bearer", "basic")] | None = Field(
        default=None,
        description="`none`, `api_key`, `bearer` or `basic`; absent: by which of the credentials is given.",
    )
    api_key_header_name: Annotated[str, _passing(_check_header_name)] = Field(
        default="X-API-Key", description="The header that carries the API key."
    )
    api_key_value: SecretStr | None = Field(default=None, description="The API key.")
    auth_token: SecretStr | None = Field(default=None, description="The token of `bearer`.")
    auth_username: str | None = Field(default=None, description="The user name of `basic`.")
    auth_password: SecretStr | None = Field(default=None, description="The password of `basic`.")
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
    max_response_bytes: int = Field(
        default=16 * 2**20,
        gt=0,
        description="Size limit of an answer (of one line or event in a stream), in bytes.",
    )

    @model_validator(mode="after")
    def _check_credentials(self) -> Self:
        from enginehost_engines.rest.auth import auth_header  # it reads this model

        return _checked(auth_header, self)
