"""The smss keys of the OpenAPI engine: its own, and those of the REST engine that hold for all operations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, create_model, model_validator

from enginehost.config import BadValue, EngineConfig, config_keys
from enginehost.errors import ConfigError
from enginehost_engines.openapi.rest_keys import read_rest
from enginehost_engines.rest.config import RestConfig
from enginehost_engines.rest.url import parse

OF_ONE_OPERATION = frozenset(
    {"api_endpoint_url", "http_method", "content_type", "parameter_placement", "query_style"}
    | {"body_constants", "response_path", "response_schema", "pagination", "form_style"}
)
"""Fields of the REST engine's model that the document decides for each operation."""


def _check_base_url(value: str | None) -> str | None:
    if value is not None:
        try:
            parse(value)
        except ConfigError as error:
            message = error.message.replace("API_ENDPOINT_URL", "OPENAPI_BASE_URL")
            raise BadValue(message, hint=error.hint, reason=error.reason, key="OPENAPI_BASE_URL") from None
    return value


def _check_prefix(value: str) -> str:
    if value and not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", value):
        raise BadValue("OPENAPI_PREFIX has letters, digits, _ and -, at most 32", key="OPENAPI_PREFIX")
    return value


def _list(value: Any) -> Any:
    """One word, or a list of words in JSON."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Words = Annotated[list[str] | str, BeforeValidator(_list)]


class OwnKeys(EngineConfig):
    """What a smss file says about a document."""

    openapi_spec: Annotated[str, AfterValidator(str.strip)] = Field(
        min_length=1,
        description="The OpenAPI 3.0 or 3.1 document, YAML or JSON: a file, relative to the smss file,"
        " or a URL.",
    )
    openapi_include: Words = Field(
        default_factory=list,
        description="Only operations that match: a list in JSON, or words with commas between. A pattern"
        " (`*`, `?`, `[…]`) is compared with the function's name, the path (`/pets*`), method and path"
        " (`GET /pets*`), and the tags (`tag:store`).",
    )
    openapi_exclude: Words = Field(
        default_factory=list, description="Without operations that match, written like OPENAPI_INCLUDE."
    )
    openapi_prefix: Annotated[str, AfterValidator(_check_prefix)] = Field(
        default="", description="What the names of all functions begin with."
    )
    openapi_tags: Words = Field(default_factory=list, description="Further tags of all functions.")
    openapi_base_url: Annotated[str | None, AfterValidator(_check_base_url)] = Field(
        default=None, description="Where the service is, in place of the document's servers."
    )
    openapi_refresh_seconds: float = Field(
        default=300.0,
        ge=1.0,
        description="Seconds after which a document behind a URL is looked at again (a file is watched).",
    )
    openapi_remote_refs: bool = Field(
        default=False, description="Whether documents on other servers, to which it refers, are read too."
    )

    @model_validator(mode="after")
    def _check_credentials(self) -> Self:
        from enginehost_engines.rest.auth import auth_header  # it reads the REST engine's model

        try:
            auth_header(read_rest({"API_ENDPOINT_URL": "http://host", **common_keys(self)}))
        except ConfigError as error:
            raise BadValue(error.message, hint=error.hint, reason=error.reason, key=error.key) from None
        return self


def common_keys(config: OwnKeys) -> dict[str, Any]:
    """The keys of the REST engine that the file gives for all operations."""
    given = config.model_fields_set - OF_ONE_OPERATION
    return {key.name: getattr(config, key.field) for key in config_keys(RestConfig) if key.field in given}


if TYPE_CHECKING:
    OpenApiConfig = OwnKeys
else:
    OpenApiConfig = create_model(
        "OpenApiConfig",
        __base__=OwnKeys,
        __doc__=OwnKeys.__doc__,
        **{
            name: (info.annotation, info)
            for name, info in RestConfig.model_fields.items()
            if name not in OF_ONE_OPERATION
        },
    )
    """With the keys of the REST engine, so that none has to be written twice."""
