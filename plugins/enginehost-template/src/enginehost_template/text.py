"""The engine kind ``Text``: a function that fills a text template with its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from pydantic import Field

from enginehost.config import EngineConfig
from enginehost.engine import AbstractFunctionEngine, EngineContext
from enginehost.errors import ConfigError


class TextConfig(EngineConfig):
    """The smss keys of a ``Text`` engine; field ``text_template`` is key ``TEXT_TEMPLATE``."""

    text_template: str = Field(default="", description="The text; $name stands for parameter name, $$ for $.")
    text_file: str = Field(
        default="",
        description="A UTF-8 file with the text, beside the smss file; used where TEXT_TEMPLATE is blank.",
    )
    text_missing: str = Field(default="", description="What stands for a parameter that a call leaves out.")


class TextEngine(AbstractFunctionEngine):
    """Fills a template. It is checked when the file is loaded, so that a call cannot fail."""

    config_model = TextConfig

    def __init__(self, context: EngineContext, config: TextConfig) -> None:
        super().__init__(context, config)
        self._file = context.folder / config.text_file if config.text_file else None
        self._template = Template(config.text_template or self._read())
        self._absent = dict.fromkeys(self._names(), config.text_missing)

    def watched(self) -> Sequence[Path]:
        """The template's file: editing it takes effect as editing the smss file does."""
        return (self._file,) if self._file else ()

    async def execute(self, parameters: dict[str, Any]) -> str:
        """The filled text."""
        return self._template.substitute(self._absent | parameters)

    def _read(self) -> str:
        if self._file is None:
            raise ConfigError("there is no text", hint="write TEXT_TEMPLATE or TEXT_FILE")
        try:
            return self._file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise ConfigError(
                f"TEXT_FILE cannot be read: {reason}", hint="the path starts at the smss file"
            ) from error

    def _names(self) -> list[str]:
        if not self._template.is_valid():
            raise ConfigError("a $ in the text begins no name", hint="write $$ for a dollar sign")
        names = self._template.get_identifiers()
        declared = self.context.signature.properties if self.context.signature else {}
        unknown = [name for name in names if name not in declared]
        if unknown:
            message = f"the text names {', '.join(unknown)}, which FUNCTION_PARAMETERS does not declare"
            raise ConfigError(message, hint="declare it, or write $$ for a dollar sign")
        return names
