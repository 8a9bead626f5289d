"""Models of Anthropic's Messages API: ``ENGINE_CLASS = Anthropic``."""

from enginehost_anthropic.config import AnthropicConfig as AnthropicConfig
from enginehost_anthropic.engine import AnthropicModel as AnthropicModel

__all__ = ["AnthropicConfig", "AnthropicModel"]
