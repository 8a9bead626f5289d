"""The smss keys of ``ENGINE_CLASS = Anthropic``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, model_validator

from enginehost.config import BadValue, lower_case
from enginehost.llm.config import ModelConfig, check_url

StructuredOutput = Literal["format", "tool"]
"""How JSON of a schema is asked for."""

Thinking = Literal["adaptive", "budget"]
"""How a model is told how much to think."""


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, text in headers.items():
        if (
            not name.isascii()
            or not name.replace("-", "").replace("_", "").isalnum()
            or not text.isprintable()
        ):
            raise BadValue(
                "HEADERS holds what no header can", hint='write {"name": "value"}', reason="bad-header"
            )
    return headers


class AnthropicConfig(ModelConfig):
    """What a smss file says about a model of the Messages API."""

    api_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("API_KEY", "ANTHROPIC_API_KEY"),
        description="The key of the API (header `x-api-key`).",
    )
    auth_token: SecretStr | None = Field(
        default=None, description="A bearer token in place of a key, as gateways want it."
    )
    model: str = Field(
        default="",
        description="The model: an id, or a part of one that only one listed id has. Absent: each caller"
        " names one.",
    )
    endpoint: Annotated[str, AfterValidator(check_url)] = Field(
        default="https://api.anthropic.com",
        validation_alias=AliasChoices("ENDPOINT", "BASE_URL"),
        description="Where the API is; `/v1/messages` is added.",
    )
    api_version: str = Field(
        default="2026-10-21",
        pattern=r"\d{4}-\d\d-\d\d",
        description="The version of the API (header `anthropic-version`). From 2026-10-21 on it takes no"
        " temperature; `2023-06-01` does, with the models that still have one.",
    )
    max_tokens: int = Field(
        default=8192, ge=1, description="The most tokens of an answer where a caller says nothing."
    )
    headers: Annotated[dict[str, str], AfterValidator(_check_headers)] = Field(
        default_factory=dict,
        repr=False,
        description="Further headers of every request (JSON object), such as `anthropic-beta`.",
    )
    structured_output: Annotated[StructuredOutput, BeforeValidator(lower_case)] = Field(
        default="format",
        description="How an answer of a schema is asked for: `format` (the API's `output_config`), or `tool`"
        " (a tool that has to be called; for models and gateways without the former).",
    )
    thinking: Annotated[Thinking, BeforeValidator(lower_case)] = Field(
        default="adaptive",
        description="What a caller's `reasoning` becomes: `adaptive` (the model decides, `effort` guides it),"
        " or `budget` (a number of tokens: 2,048, 8,192 or 24,576; for older models).",
    )
    spool_body: bool = Field(
        default=False,
        description="Whether a request is first written to a temporary file, for a gateway that wants its"
        " length before it. One that answers 411 gets its requests so without this.",
    )

    @model_validator(mode="after")
    def _one_proof(self) -> AnthropicConfig:
        if self.api_key is not None and self.auth_token is not None:
            raise ValueError("API_KEY and AUTH_TOKEN: one of the two proves who calls")
        return self
