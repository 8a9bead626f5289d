"""``ENGINE_CLASS = Scripted``: answers from a script in place of a model, for tests and demos."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

import orjson
from pydantic import Field

from enginehost.engine import EngineContext
from enginehost.errors import ConfigError, InvalidRequest
from enginehost.llm.config import ModelConfig
from enginehost.llm.message import Message, Type
from enginehost.llm.model import AbstractModelEngine, ModelRequest, Rows
from enginehost_engines.models.playing import play
from enginehost_engines.models.script import Script, read_script
from enginehost_engines.models.situation import choose, situation


class ScriptedConfig(ModelConfig):
    """What a smss file says about a scripted model."""

    script: str = Field(
        description="The YAML file with the answers; a relative path starts at the smss file."
    )
    model: str = Field(
        default="",
        description="The model that is asked where a caller names none; absent: the script's first.",
    )


class ScriptedModel(AbstractModelEngine):
    """No model: says what its script says. Reading the script again begins its counts (``times``) anew."""

    config_model = ScriptedConfig
    config: ScriptedConfig

    def __init__(self, context: EngineContext, config: ScriptedConfig) -> None:
        super().__init__(context, config)
        self._path = context.folder / config.script
        self._script = _read(self._path)
        self._has_said_so = False
        if config.model and config.model not in self._script.models:
            listed = ", ".join(self._script.models)
            raise ConfigError(
                f"the script has no model {config.model}", key="MODEL", hint=f"it lists {listed}"
            )

    def watched(self) -> Sequence[Path]:
        """The script."""
        return (self._path,)

    @property
    def trouble(self) -> str:
        """That it is no model, on every list of engines."""
        return f"no model: answers are scripted ({self._path.name})"

    @property
    def _name(self) -> str:
        return self.context.display_name or self.context.alias or self.context.engine_id

    @property
    def default_model(self) -> str:
        """The key ``MODEL``, or the script's first."""
        return self.config.model or self._script.models[0]

    async def models(self) -> Sequence[str]:
        """What the script lists."""
        return self._script.models

    async def stream(self, rows: Rows, request: ModelRequest) -> AsyncGenerator[Message, None]:
        """The first answer of the script that fits; the first time the log says that this is no model."""
        if not self._has_said_so:
            self._has_said_so = True
            told = "%s is no model: its answers are scripted (%s)"
            self.context.log.warning(told, self._name, self._path.name)
        found = await situation(rows())
        answer, values = choose(self._script, found, request)
        messages = play(answer, values, request, found.tokens)
        async with aclosing(messages):
            if request.schema is None:
                async for message in messages:
                    yield message
                return
            async with aclosing(_structured(messages)) as structured:
                async for message in structured:
                    yield message


def _read(path: Path) -> Script:
    """The script; its mistakes are told at the key that names it, with their line."""
    try:
        return read_script(path)
    except ConfigError as error:
        where = ", ".join(filter(None, [path.name, f"line {error.line}" if error.line else ""]))
        raise ConfigError(f"{where}: {error.message}", key="SCRIPT", hint=error.hint) from error


async def _structured(messages: AsyncGenerator[Message, None]) -> AsyncGenerator[Message, None]:
    """Texts as the data that was asked for."""
    said: list[str] = []
    async for message in messages:
        if message.type is not Type.TEXT:
            yield message
            continue
        said.append(message.content)
        if message.whole:
            yield _as_data(message, "".join(said))
            said = []


def _as_data(message: Message, text: str) -> Message:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        raise InvalidRequest(
            "JSON was asked for, and the script's answer is a text",
            detail={"hint": "write data: in the script"},
        ) from None
    return Message(message.role, Type.DATA, text, usage=message.usage, id=message.id)
