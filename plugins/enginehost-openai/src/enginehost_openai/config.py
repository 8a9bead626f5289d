"""The keys of ``ENGINE_CLASS = OpenAI``."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator

from enginehost.llm.config import ModelConfig

OPENAI = "https://api.openai.com/v1"

_PATHS = ("/chat/completions", "/responses", "/models")


class OpenAiConfig(ModelConfig):
    """The file of a model that is reached through Chat Completions or Responses."""

    model: str = Field(
        default="",
        validation_alias=AliasChoices("MODEL", "MODEL_NAME"),
        description="The model's id, or a part of one that only one of the listed ids has; absent: the only"
        " one that is listed.",
    )
    api: Literal["chat", "responses"] = Field(
        default="chat",
        description="chat: Chat Completions, which every compatible server has; responses: OpenAI's"
        " Responses, which keeps the reasoning of a turn.",
    )
    base_url: str = Field(
        default=OPENAI,
        validation_alias=AliasChoices("BASE_URL", "ENDPOINT"),
        description="Where the API begins: what stands before /chat/completions, often with /v1.",
    )
    api_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("API_KEY", "OPEN_AI_KEY", "OPENAI_API_KEY"),
        description="Sent as a bearer token; many servers of one's own need none.",
    )
    organization: str = Field(
        default="", description="OpenAI's organization, where a key belongs to several."
    )
    project: str = Field(
        default="",
        validation_alias=AliasChoices("OPENAI_PROJECT"),
        description="OpenAI's project, where a key belongs to several.",
    )
    headers: dict[str, str] = Field(
        default_factory=dict, repr=False, description="Further headers of each request."
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Tokens of an answer at most, reasoning included; the provider's own"
        " limit where it is absent.",
    )
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = Field(
        default="max_completion_tokens",
        description="The member that says so in Chat Completions; older servers know max_tokens.",
    )
    temperature: float | None = Field(default=None, ge=0, le=2, description="How freely the model chooses.")
    reasoning_effort: Literal["", "none", "minimal", "low", "medium", "high", "xhigh"] = Field(
        default="", description="How much the model thinks, where it can."
    )
    reasoning_summary: Literal["", "auto", "concise", "detailed"] = Field(
        default="", description="Responses: a summary of what the model thinks comes with the answer."
    )
    return_reasoning: bool = Field(
        default=False,
        description="Chat Completions: send back what the model thought, in the member in which it came; some"
        " servers want that within a turn, others refuse it.",
    )
    prompt_cache_key: str = Field(
        default="", description="Requests with one key come to one cache, where the provider has several."
    )
    stream_usage: bool = Field(
        default=True,
        description="Chat Completions: ask for the tokens that were used; off for servers that refuse that.",
    )
    spool_body: bool = Field(
        default=False,
        description="Write each request into a temporary file first, so that its length is known: for"
        " endpoints that refuse a chunked body. One that answers 411 gets its requests so without this.",
    )

    @field_validator("base_url")
    @classmethod
    def _where_it_begins(cls, url: str) -> str:
        url = url.rstrip("/")
        for path in _PATHS:
            url = url.removesuffix(path)
        if not url.startswith(("http://", "https://")):
            raise ValueError("an URL begins with http:// or https://")
        return url
