"""The smss keys of ``ENGINE_CLASS = Bedrock``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, model_validator

from enginehost.config import lower_case
from enginehost.llm.config import ModelConfig, check_url

StructuredOutput = Literal["format", "tool"]
"""How JSON of a schema is asked for."""

Thinking = Literal["adaptive", "budget"]
"""How a Claude model is told how much to think."""

Family = Literal["anthropic", "amazon", "openai", "other"]
"""Whose model it is, where that decides what may be asked of it."""


class BedrockConfig(ModelConfig):
    """What a smss file says about a model of Bedrock."""

    model: str = Field(
        default="",
        description="The model: the id or ARN of a model or an inference profile, or a part of an id that"
        " only one listed id has. Absent: each caller names one.",
    )
    aws_region: str = Field(
        default="",
        validation_alias=AliasChoices("AWS_REGION", "REGION"),
        description="The region; absent: boto3's (AWS_REGION of the host's environment, or the profile's).",
    )
    aws_access_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
        description="The id of an access key; absent: boto3 looks for credentials.",
    )
    aws_secret_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("AWS_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"),
        description="The access key's secret.",
    )
    aws_session_token: SecretStr | None = Field(
        default=None, description="The token of temporary credentials."
    )
    aws_profile: str = Field(default="", description="A profile of the AWS configuration of the host.")
    api_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("API_KEY", "AWS_BEARER_TOKEN_BEDROCK"),
        description="A Bedrock API key (bearer token) in place of credentials; the request then need not be"
        " signed, and is sent as it is written.",
    )
    endpoint: Annotated[str, AfterValidator(check_url)] = Field(
        default="", description="Where the runtime is; absent: boto3's address for the region."
    )
    list_endpoint: Annotated[str, AfterValidator(check_url)] = Field(
        default="",
        description="Where models are listed; absent: boto3's address for the region, and no list where"
        " ENDPOINT is given.",
    )
    max_tokens: int | None = Field(
        default=None, ge=1, description="The most tokens of an answer; absent: the model's own."
    )
    stream: bool = Field(
        default=True,
        description="Whether ConverseStream is called; off: Converse, whose answer comes whole, for models"
        " that do not stream.",
    )
    structured_output: Annotated[StructuredOutput, BeforeValidator(lower_case)] = Field(
        default="tool",
        description="How an answer of a schema is asked for: `tool` (a tool that has to be called) or"
        " `format` (Bedrock's own `outputConfig`, for models that have it).",
    )
    thinking: Annotated[Thinking, BeforeValidator(lower_case)] = Field(
        default="adaptive",
        description="What a caller's `reasoning` becomes for Claude: `adaptive` (the model decides, the"
        " effort guides it), or `budget` (a number of tokens: 2,048, 8,192 or 24,576; for older models).",
    )
    model_family: Annotated[Family, BeforeValidator(lower_case)] | None = Field(
        default=None,
        description="`anthropic`, `amazon`, `openai` or `other`: whose model it is, where its id does not say"
        " (an ARN). It decides how reasoning and cache points are asked for.",
    )

    @model_validator(mode="after")
    def _whole_key(self) -> BedrockConfig:
        if (self.aws_access_key is None) != (self.aws_secret_key is None):
            raise ValueError("AWS_ACCESS_KEY and AWS_SECRET_KEY belong together")
        return self
