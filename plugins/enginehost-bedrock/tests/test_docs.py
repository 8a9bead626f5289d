"""The page of this engine in the host's documentation has every key, with what it means."""

from __future__ import annotations

from pathlib import Path

from enginehost_bedrock import BedrockConfig

from enginehost.config import config_keys
from enginehost.llm.config import ModelConfig

PAGE = Path(__file__).parents[3] / "docs" / "model-bedrock.md"


def test_every_key_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    common = {key.field for key in config_keys(ModelConfig)}
    own = [key for key in config_keys(BedrockConfig) if key.field not in common]
    assert own
    assert [key.field for key in own if " ".join(key.description.split()) not in text] == []
    assert [name for key in own for name in key.accepted if f"`{name}`" not in text] == []
