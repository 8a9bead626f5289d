"""The engine of ``ENGINE_CLASS = Llm``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import anyio
import anyio.to_thread

from enginehost.engine import EngineContext
from enginehost.errors import CallTimeout, ConfigError, InvalidRequest
from enginehost.llm.message import Message
from enginehost.llm.model import AbstractModelEngine, ModelRequest, Rows
from enginehost_llm.answer import Answer, usage_of
from enginehost_llm.config import LlmConfig
from enginehost_llm.context import Context, response_of
from enginehost_llm.events import events
from enginehost_llm.failures import failure
from enginehost_llm.options import check, options_of

_MOST_THREADS = 64
"""Answers of synchronous models that may take a step at once."""


class LlmModel(AbstractModelEngine):
    """The models of ``llm`` on this host. ``llm`` itself logs nothing of what goes through here."""

    config_model = LlmConfig
    config: LlmConfig

    def __init__(self, context: EngineContext, config: LlmConfig) -> None:
        super().__init__(context, config)
        self._models: Mapping[str, Any] = {}
        self._limiter = anyio.CapacityLimiter(_MOST_THREADS)

    async def open(self) -> None:
        """Load the plugins of ``llm``. Raises :class:`ConfigError` where none has the file's model."""
        if self.config.api_key is not None:
            self.context.conceal(self.config.api_key.get_secret_value().strip())
        self._models = await anyio.to_thread.run_sync(_installed)
        if self.config.model and self.config.model not in self._models:
            raise ConfigError(
                f"llm has no model {self.config.model}",
                key="MODEL",
                hint="llm models lists them; a plugin of llm may have to be installed here",
            )

    @property
    def default_model(self) -> str:
        """The id of the file's model, also where the file has an alias."""
        found = self._models.get(self.config.model)
        return found.model_id if found is not None else self.config.model

    async def models(self) -> Sequence[str]:
        """The ids of all models of ``llm``."""
        return list(dict.fromkeys(model.model_id for model in self._models.values()))

    async def stream(self, rows: Rows, request: ModelRequest) -> AsyncGenerator[Message, None]:
        """The answer."""
        model = self._models.get(request.model)
        if model is None:
            raise InvalidRequest(f"llm has no model {request.model!r}")
        check(model, request)
        options = options_of(model, request, self.config.options)
        context = Context(model, request)
        await context.read(rows())
        key = self.config.api_key.get_secret_value().strip() if self.config.api_key is not None else None
        response = response_of(model, context.prompt(options), context.conversation(options), key)
        answer = Answer(model.model_id, request.schema is not None)
        async with aclosing(events(response, self._limiter)) as stream:
            while (event := await self._next(stream, request.timeout)) is not None:
                for message in answer.take(event):
                    yield message
        calls = response.tool_calls()
        for message in answer.end(
            calls if isinstance(calls, list) else await calls, usage_of(response, model.model_id)
        ):
            yield message

    async def _next(self, stream: AsyncGenerator[Any, None], timeout: float | None) -> Any:
        seconds = timeout or self.config.read_timeout
        try:
            with anyio.fail_after(seconds):
                return await anext(stream, None)
        except TimeoutError as error:
            late = CallTimeout(self.who, seconds, "the model said nothing more", limit="READ_TIMEOUT")
            late.detail["retryable"] = True
            raise late from error
        except Exception as error:
            raise failure(self.who, error) from error


def _installed() -> Mapping[str, Any]:
    """Every model by id and alias: its asynchronous form where it has one."""
    import llm

    found: dict[str, Any] = {}
    for one in llm.get_models_with_aliases():
        model = one.async_model or one.model
        for name in (model.model_id, *one.aliases):
            found.setdefault(name, model)
    return found
