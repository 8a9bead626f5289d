"""What is known about SEMOSS's engine classes that nobody here provides.

SEMOSS names a Java class in ``ENGINE_TYPE``; its package says which catalog type the file belongs to
(the packages are those below ``prerna.engine.impl``).
"""

from __future__ import annotations

from collections.abc import Mapping

SEMOSS_PREFIX = "prerna."
_FUNCTIONS = "prerna.engine.impl.function."

CATALOG_TYPES: Mapping[str, str] = {
    "prerna.engine.impl.guardrail.": "guardrail",
    "prerna.engine.impl.model.": "model",
    "prerna.engine.impl.storage.": "storage",
    "prerna.engine.impl.vector.": "vector",
    "prerna.engine.impl.venv.": "virtual environment",
    "prerna.project.": "project",
    "prerna.engine.impl.": "database",
}
"""Prefix of a Java class name → SEMOSS catalog type; the first that fits counts."""

MODEL_PLUGINS: Mapping[str, str] = {
    "prerna.engine.impl.model.AnthropicEngine": "enginehost-anthropic",
    "prerna.engine.impl.model.BedrockEngine": "enginehost-bedrock",
    "prerna.engine.impl.model.OpenAiEngine": "enginehost-openai",
}
"""SEMOSS's model classes that a plugin of this project has."""


PLUGINS: Mapping[str, str] = {
    "openai": "enginehost-openai",
    "prerna.engine.impl.model.openaiengine": "enginehost-openai",
    "anthropic": "enginehost-anthropic",
    "bedrock": "enginehost-bedrock",
    "llm": "enginehost-llm",
}
"""Kinds that distributions beside the host's own provide, without case."""


def other_catalog_type(class_name: str) -> str | None:
    """The catalog type of a SEMOSS class that is no function engine; ``None`` for every other name."""
    if class_name.startswith(_FUNCTIONS):
        return None
    found = (kind for prefix, kind in CATALOG_TYPES.items() if class_name.startswith(prefix))
    return next(found, None)


def semoss_reason(class_name: str) -> str | None:
    """Why a SEMOSS class is not supported; ``None`` when the name is not one of SEMOSS's."""
    if class_name.startswith(_FUNCTIONS):
        return f"no plugin provides SEMOSS's function engine {class_name.rpartition('.')[2]}"
    if plugin := MODEL_PLUGINS.get(class_name):
        return f"a SEMOSS model engine of this class needs the plugin {plugin}, which is not installed"
    if catalog_type := other_catalog_type(class_name):
        return f"a SEMOSS {catalog_type} engine offers no function here"
    return "no plugin provides this class of SEMOSS" if class_name.startswith(SEMOSS_PREFIX) else None
