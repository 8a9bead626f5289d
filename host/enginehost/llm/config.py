"""The keys that every model engine has: which model, what it costs, what happens when it fails."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, model_validator

from enginehost.config import BadValue, EngineConfig
from enginehost.llm.message import Usage


def check_url(url: str) -> str:
    """The address of an API, without the slash at its end; none stays none. (For ``AfterValidator``.)"""
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
        hint = "write https://host or https://host/path"
        raise BadValue("this is no address", hint=hint, reason="bad-url")
    return url.rstrip("/")


class ModelConfig(EngineConfig):
    """Base of the config models of model engines; LLMService acts on these keys, whatever the engine."""

    model: str = Field(
        default="",
        description="The model's id, or a part of one that only one of the listed ids has. Absent: the only"
        " one that is listed, or none where the engine knows no ids.",
    )
    fallback_model: str = Field(
        default="",
        description="Another model engine (id or name) that answers when this one cannot: it is not reached,"
        " it is overloaded, it fails, or it refuses the key. It is asked before the first piece only.",
    )
    list_models: bool = Field(
        default=True,
        description="Whether the model's id is looked up among those that the provider lists (a unique part"
        " of an id suffices then). Off: the id is sent as it is written.",
    )
    price_input: float | None = Field(
        default=None,
        ge=0,
        description="US dollars for a million tokens of input; without it the cost is unknown.",
    )
    price_output: float | None = Field(
        default=None, ge=0, description="US dollars for a million tokens of output."
    )
    price_cached: float | None = Field(
        default=None,
        ge=0,
        description="US dollars for a million tokens of input that the provider had in its cache; absent: the"
        " price of input.",
    )
    price_cache_write: float | None = Field(
        default=None,
        ge=0,
        description="US dollars for a million tokens of input that the provider put into its cache; absent:"
        " the price of input.",
    )
    retries: int = Field(
        default=2,
        ge=0,
        le=20,
        description="How often a request is sent again that failed before its first piece: after 408, 409,"
        " 429 and 5xx, without a connection, and when the answer breaks off.",
    )
    retry_seconds: float = Field(
        default=0.5,
        ge=0,
        le=60,
        description="Longest wait before the first repetition; it doubles with each, up to 30 s. Retry-After"
        " is the least that is waited.",
    )
    breaker_failures: int = Field(
        default=5,
        ge=0,
        description="After so many failures in a row no request is sent for a while; 0: never.",
    )
    breaker_seconds: float = Field(default=30.0, gt=0, description="How long that while is.")
    connect_timeout: float = Field(
        default=10.0, gt=0, description="Seconds that making a connection may take."
    )
    read_timeout: float = Field(
        default=120.0, gt=0, description="Seconds that the provider's next byte may take."
    )

    @model_validator(mode="after")
    def _whole_prices(self) -> ModelConfig:
        if (self.price_input is None) != (self.price_output is None):
            raise ValueError("PRICE_INPUT and PRICE_OUTPUT belong together")
        return self

    def cost(self, usage: Usage) -> float | None:
        """What an answer costs in US dollars; ``None`` where the file has no prices or no usage came."""
        if self.price_input is None or self.price_output is None:
            return None
        if not (usage.input or usage.output or usage.cached or usage.cache_written):
            return None
        cached = self.price_input if self.price_cached is None else self.price_cached
        write = self.price_input if self.price_cache_write is None else self.price_cache_write
        spent = (
            usage.input * self.price_input
            + usage.output * self.price_output
            + usage.cached * cached
            + usage.cache_written * write
        )
        return spent / 1_000_000
