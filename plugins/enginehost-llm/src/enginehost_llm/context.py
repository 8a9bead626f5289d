"""Rows as a prompt of ``llm``: its messages, and what plugins of before there were messages read.

Such plugins see the last turn in the prompt and earlier ones as responses of a conversation.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable
from dataclasses import dataclass, field
from typing import Any

from enginehost.errors import InvalidRequest
from enginehost.llm.blocks import joined, shown_call
from enginehost.llm.message import Message, Role, Type
from enginehost.llm.model import ModelRequest
from enginehost.specs import to_spec

PROVIDER = "llm"
"""The member of ``Message.provider`` that is ours."""


@dataclass(slots=True)
class _Turn:
    """What a model is told, and what it answers."""

    texts: list[str] = field(default_factory=list[str])
    attachments: list[Any] = field(default_factory=list[Any])
    results: list[Any] = field(default_factory=list[Any])
    said: list[str] = field(default_factory=list[str])
    calls: list[Any] = field(default_factory=list[Any])
    answered: bool = False

    @property
    def prompt(self) -> str:
        return "\n\n".join(self.texts)


class Context:
    """Gathers rows. ``llm`` has no other way than to hold them all."""

    def __init__(self, model: Any, request: ModelRequest) -> None:
        self._model = model
        self._request = request
        self._system: list[str] = []
        self._messages: list[Any] = []
        self._turns = [_Turn()]
        self._pieces: list[Message] = []

    async def read(self, rows: AsyncIterable[Message]) -> None:
        """Take in all rows. Raises :class:`InvalidRequest` for one that the model has no place for."""
        async for message in rows:
            self._pieces.append(message)
            if message.whole:
                self._take(joined(self._pieces))
                self._pieces = []

    def prompt(self, options: Any) -> Any:
        """The prompt of ``llm``."""
        from llm import Prompt

        turn = self._turns[-1]
        if turn.answered or not self._messages:
            turn = _Turn()
        return Prompt(
            turn.prompt or None,
            self._model,
            attachments=turn.attachments,
            system="\n\n".join(self._system) or None,
            options=options,
            schema=dict(self._request.schema) if self._request.schema is not None else None,
            tools=self._tools(),
            tool_results=turn.results,
            messages=self._messages,
        )

    def conversation(self, options: Any) -> Any:
        """The turns before the last, as responses that are there already."""
        from llm import Prompt

        found = self._model.conversation()
        kind = _response_class(self._model)
        turns = self._turns if self._turns[-1].answered else self._turns[:-1]
        for at, turn in enumerate(turns):
            asked = Prompt(
                turn.prompt,
                self._model,
                attachments=turn.attachments,
                system="\n\n".join(self._system) or None if at == 0 else None,
                tool_results=turn.results,
                options=options,
            )
            response: Any = kind(asked, self._model, False)
            response._done = True
            response._chunks = ["".join(turn.said)]
            response._tool_calls = turn.calls
            found.responses.append(response)
        return found

    def _tools(self) -> list[Any]:
        from llm import Tool

        specs = [
            to_spec(one, "anthropic", name=self._request.names.get(one.name)) for one in self._request.tools
        ]
        return [Tool(one["name"], one.get("description"), one["input_schema"]) for one in specs]

    def _take(self, message: Message) -> None:
        from llm.parts import AttachmentPart, TextPart

        kind = message.type
        if message.role is Role.SYSTEM:
            self._system.append(message.content)
            self._part("system", TextPart(message.content))
        elif kind is Type.TOOL_RESULT:
            self._result(message)
        elif kind in (Type.IMAGE, Type.FILE):
            attachment = self._attachment(message)
            self._input().attachments.append(attachment)
            self._part("user", AttachmentPart(attachment))
        elif kind is Type.TOOL_CALL:
            self._call(message)
        elif kind is Type.REASONING:
            self._thought(message)
        elif kind not in (Type.TEXT, Type.DATA):
            raise InvalidRequest(f"llm has no place for a message of type {kind}")
        elif message.role is Role.ASSISTANT:
            self._output().said.append(message.content)
            self._part("assistant", TextPart(message.content))
        else:
            self._input().texts.append(message.content)
            self._part("user", TextPart(message.content))

    def _part(self, role: str, part: Any) -> None:
        from llm import Message as LlmMessage

        if not self._messages or self._messages[-1].role != role:
            self._messages.append(LlmMessage(role, []))
        self._messages[-1].parts.append(part)

    def _input(self) -> _Turn:
        if self._turns[-1].answered:
            self._turns.append(_Turn())
        return self._turns[-1]

    def _output(self) -> _Turn:
        self._turns[-1].answered = True
        return self._turns[-1]

    def _result(self, message: Message) -> None:
        from llm import ToolResult
        from llm.parts import ToolResultPart

        query = message.query or {}
        name, _ = shown_call(self._request, query, "anthropic")
        failed = "the tool failed" if query.get("error") else None
        self._input().results.append(
            ToolResult(
                name,
                message.content,
                tool_call_id=message.call_id,
                exception=RuntimeError(failed) if failed else None,
            )
        )
        part = ToolResultPart(name, message.content, tool_call_id=message.call_id, exception=failed)
        self._part("tool", part)

    def _call(self, message: Message) -> None:
        from llm import ToolCall
        from llm.parts import ToolCallPart

        name, args = shown_call(self._request, message.query or {}, "anthropic")
        self._output().calls.append(ToolCall(name, args, message.call_id))
        own = self._own(message)
        part = ToolCallPart(name, args, tool_call_id=message.call_id, provider_metadata=own)
        self._part("assistant", part)

    def _thought(self, message: Message) -> None:
        """A thought goes back to the model that had it, with what its provider wants back."""
        from llm.parts import ReasoningPart

        if (own := self._own(message)) is not None:
            self._part("assistant", ReasoningPart(message.content, not message.content, own))

    def _own(self, message: Message) -> Any:
        found: Any = (message.provider or {}).get(PROVIDER) or {}
        return found.get("metadata") if found.get("model") == self._model.model_id else None

    def _attachment(self, message: Message) -> Any:
        from llm import Attachment

        query = message.query or {}
        media_type = str(query.get("media_type", ""))
        taken = sorted(self._model.attachment_types)
        if media_type not in taken or message.role is Role.ASSISTANT:
            name = self._model.model_id
            raise InvalidRequest(
                f"the model {name} of llm takes {', '.join(taken) or 'no files'}, not {media_type!r}"
            )
        if url := query.get("url"):
            return Attachment(type=media_type, url=str(url))
        try:
            return Attachment(type=media_type, content=base64.b64decode(message.content, validate=True))
        except ValueError:
            raise InvalidRequest("a file's content is no base64") from None


def _response_class(model: Any) -> Any:
    import llm

    is_async = isinstance(model, llm.AsyncModel | llm.AsyncKeyModel)
    return llm.AsyncResponse if is_async else llm.Response


def response_of(model: Any, prompt: Any, conversation: Any, key: str | None) -> Any:
    """The response that is to come. Raises :class:`InvalidRequest` where the model cannot give one."""
    from llm import ConversationNotSupported

    try:
        return _response_class(model)(prompt, model, bool(model.can_stream), conversation, key)
    except (ConversationNotSupported, ValueError) as error:
        raise InvalidRequest(f"the model {model.model_id} of llm: {error}") from error
