"""Models of the ``llm`` command and its plugins: ``ENGINE_CLASS = Llm``."""

from enginehost_llm.config import LlmConfig as LlmConfig
from enginehost_llm.engine import LlmModel as LlmModel

__all__ = ["LlmConfig", "LlmModel"]
