"""The smss keys of ``ENGINE_CLASS = Llm``."""

from __future__ import annotations

from typing import Any

from pydantic import Field, SecretStr

from enginehost.llm.config import ModelConfig


class LlmConfig(ModelConfig):
    """What a smss file says about a model of ``llm``."""

    model: str = Field(
        default="", description="An id or an alias of `llm models`. Absent: each caller names one."
    )
    api_key: SecretStr | None = Field(
        default=None, description="The model's key; absent: that of `llm keys`, or of the environment."
    )
    options: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Options of the model (JSON object), as `llm models --options` lists them.",
    )
