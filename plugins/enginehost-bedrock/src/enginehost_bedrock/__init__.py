"""Models of Amazon Bedrock: ``ENGINE_CLASS = Bedrock``."""

from enginehost_bedrock.config import BedrockConfig as BedrockConfig
from enginehost_bedrock.engine import BedrockModel as BedrockModel

__all__ = ["BedrockConfig", "BedrockModel"]
