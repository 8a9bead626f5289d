"""The kinds of REST engines: the whole answer at once, or item by item."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from enginehost.engine import Call, EngineContext, Function
from enginehost.errors import ExecutionFailed, TooLarge
from enginehost.validation import Validator, check_result
from enginehost.values import LARGE, aside
from enginehost_engines.rest.auth import auth_kind
from enginehost_engines.rest.config import RestConfig
from enginehost_engines.rest.engine import HttpEngine, named_refusal
from enginehost_engines.rest.files import with_files
from enginehost_engines.rest.media import MediaType
from enginehost_engines.rest.request import Headers, Message
from enginehost_engines.rest.response import NOTHING, Answer, read_answer, shape

if TYPE_CHECKING:
    from enginehost_engines.rest.cache import Cache
    from enginehost_engines.rest.pages import Turner
    from enginehost_engines.rest.pagination import Pagination

_NOT_MODIFIED = 304
_KEPT = frozenset({"GET", "HEAD"})


class _AnswerEngine(HttpEngine):
    """What both kinds do with an answer: keep it, check it, and turn its pages."""

    def __init__(self, context: EngineContext, config: RestConfig) -> None:
        super().__init__(context, config)
        self._cache: Cache | None = None
        self._keeps = self._may_keep()
        self._changed_signature = self._completed(context)
        result = context.signature.result if context.signature else None
        self._response_schema = (
            Validator(config.response_schema) if result and config.response_schema else None
        )
        rule = config.pagination
        self._items_path = config.response_path if rule is None or rule.items is None else rule.items
        if rule is not None and rule.items is None:
            self._select = None  # it finds the items of a page, not a part of each
        if config.cache_seconds and not self._keeps:
            message = (
                "CACHE_SECONDS has no effect: whole answers to GET and HEAD are kept, and no caller's own"
            )
            context.warn("CACHE_SECONDS", "no-effect", message, "delete it")

    def _may_keep(self) -> bool:
        shared = auth_kind(self.config) != "caller"
        return self.config.cache_seconds > 0 and self._plan.method in _KEPT and shared

    def _completed(self, context: EngineContext) -> dict[str, Any]:
        """What the signature says beyond the file's: files may be bytes, and what the endpoint answers."""
        signature, found = context.signature, dict[str, Any]()
        if signature is None:
            return found
        parameters = with_files(signature.parameters, self._plan.placements)
        if parameters is not signature.parameters:
            found["parameters"] = parameters
        if signature.result is None and self.config.response_schema:
            found["result"] = self.config.response_schema
        return found

    def functions(self) -> Iterable[Function]:
        """The function of the file, with what the engine knows of its files and its result."""
        if not self._changed_signature:
            return super().functions()
        return (self.context.function(self.execute, **self._changed_signature),)

    async def close(self) -> None:
        """Forget the answers, and give the connections back."""
        if self._cache is not None:
            self._cache.forget(self)
        await super().close()

    async def _answer(
        self, message: Message, parameters: Mapping[str, Any], call: Call, timeouts: dict[str, float]
    ) -> Answer:
        """The whole answer of the endpoint, or the one that is kept."""
        if not self._keeps:
            return await self._fetched(message, parameters, call, timeouts)
        if self._cache is None:
            from enginehost_engines.rest.cache import Cache

            self._cache = Cache.here()

        async def fetch(conditions: Headers) -> Answer:
            asked = replace(message, headers=(*message.headers, *conditions)) if conditions else message
            accepted = _NOT_MODIFIED if conditions else None
            return await self._fetched(asked, parameters, call, timeouts, accepted)

        seconds = self.config.cache_seconds
        return await self._cache.answer(self, message, seconds, fetch, lambda: call.remaining)

    async def _fetched(
        self,
        message: Message,
        parameters: Mapping[str, Any],
        call: Call,
        timeouts: dict[str, float],
        accepted: int | None = None,
    ) -> Answer:
        response = await self._opened(message, parameters, call, timeouts, accepted)
        try:
            if message.method == "HEAD" or response.status_code == accepted:
                return Answer(response.status_code, response.headers, b"")
            return await read_answer(response, self.config.max_response_bytes, self._host)
        finally:
            await response.aclose()

    async def _shaped(self, answer: Answer, call: Call) -> Any:
        if self._plan.method == "HEAD":
            return dict(answer.headers.items())
        media = MediaType(answer.headers.get("content-type", ""), self.config.response_charset)
        given = answer.body, media, self._host, answer.status
        if len(answer.body) < LARGE:
            return shape(*given)
        call.large = True
        return await aside(shape, *given)

    async def _checked(self, value: Any, call: Call) -> Any:
        """The value, if ``RESPONSE_SCHEMA`` takes it; the host checks ``FUNCTION_RESULT``."""
        if self._response_schema is not None and not self._response_schema.at_once(value):
            check: Callable[..., None] = check_result
            given = f"{self._host} (RESPONSE_SCHEMA)", self._response_schema, value
            await aside(check, *given)
        return value

    def _turner(self, parameters: Mapping[str, Any], call: Call) -> Turner | None:
        """What turns the pages of a call; ``None`` where an answer has no pages."""
        if self.config.pagination is None:
            return None
        from enginehost_engines.rest.pages import NoNumber, Turner

        def first(arguments: Mapping[str, Any]) -> Message:
            return self._message(arguments, call)

        try:
            return Turner(self.config.pagination, self._items_path, parameters, first)
        except NoNumber as error:
            raise named_refusal(error, call) from None

    async def _pages(
        self, turner: Turner, parameters: Mapping[str, Any], call: Call, timeouts: dict[str, float]
    ) -> AsyncGenerator[tuple[list[Any], int]]:
        """The items of page after page, each with the bytes of its answer, up to the limits of the file."""
        rule, left = turner.rule, turner.rule.max_items
        for _ in range(rule.max_pages):
            answer = await self._answer(turner.message, parameters, call, timeouts)
            page = await self._shaped(answer, call)
            items = turner.items(answer, page)
            found = items[:left] if self._select is None else self._selected_items(items)[:left]
            left -= len(found)
            yield found, len(answer.body)
            if left <= 0 or not turner.turn(answer, page, items):
                break
        else:
            self._tell_end(rule, "max_pages", call)
            return
        if left <= 0:
            self._tell_end(rule, "max_items", call)

    def _tell_end(self, rule: Pagination, limit: str, call: Call) -> None:
        """Say that there may be more: loudly where the limit is not the author's own."""
        level = logging.INFO if limit in rule.model_fields_set else logging.WARNING
        most = getattr(rule, limit)
        self.context.log.log(level, "%s: its pages end at %s = %d (PAGINATION)", call.function, limit, most)

    def _selected_items(self, items: list[Any]) -> list[Any]:
        return [found for item in items if (found := self._select_from(item)) is not NOTHING]


class RestEngine(_AnswerEngine):
    """One endpoint: arguments become a request, the answer becomes the result.

    JSON is parsed, text is text, anything else bytes. HEAD answers with the headers.
    """

    async def execute(self, parameters: dict[str, Any], call: Call) -> Any:
        """Send one request. Raises the errors of :mod:`enginehost.errors`; none holds a secret."""
        turner = self._turner(parameters, call)
        message = self._message(parameters, call) if turner is None else turner.message
        timeouts = self._timeouts(call)
        with self._told(timeouts, call), self._until_deadline(call):
            if turner is not None:
                return await self._checked(await self._joined(turner, parameters, call, timeouts), call)
            answer = await self._answer(message, parameters, call, timeouts)
            return await self._checked(self._selected(await self._shaped(answer, call)), call)
        raise AssertionError("a scope that ends early raises")

    async def _joined(
        self, turner: Turner, parameters: Mapping[str, Any], call: Call, timeouts: dict[str, float]
    ) -> list[Any]:
        """The items of all pages; together they are bounded as one answer is."""
        joined: list[Any] = []
        size, limit = 0, self.config.max_response_bytes
        async with aclosing(self._pages(turner, parameters, call, timeouts)) as pages:
            async for items, bytes_read in pages:
                size += bytes_read
                if size > limit:
                    raise TooLarge(f"the pages of {self._host} (MAX_RESPONSE_BYTES)", limit=limit)
                joined += items
        call.large = call.large or size >= LARGE
        return joined

    def _selected(self, value: Any) -> Any:
        found = self._select_from(value)
        if found is NOTHING:
            path = self.config.response_path or ""
            message = f"the answer of {self._host} has nothing at RESPONSE_PATH = {path}"
            raise ExecutionFailed(message, detail={"pointer": path} if path.startswith("/") else {})
        return found


class StreamRestEngine(_AnswerEngine):
    """One endpoint whose answer arrives item by item (see :func:`enginehost_engines.rest.stream.items`)."""

    def _may_keep(self) -> bool:
        return self.config.pagination is not None and super()._may_keep()

    async def execute(self, parameters: dict[str, Any], call: Call) -> AsyncIterator[Any]:
        """Send one request and yield what comes, as it comes; closing the generator closes the connection."""
        turner = self._turner(parameters, call)
        message = self._message(parameters, call) if turner is None else turner.message
        timeouts = self._timeouts(call)
        with self._told(timeouts, call):
            if turner is not None:
                async with aclosing(self._pages(turner, parameters, call, timeouts)) as pages:
                    async for items, _ in self._in_time(pages, call):
                        for item in items:
                            yield await self._checked(item, call)
                return
            async with aclosing(self._arriving(message, parameters, call, timeouts)) as arriving:
                async for item in arriving:
                    yield item if self._response_schema is None else await self._checked(item, call)

    async def _arriving(
        self, message: Message, parameters: Mapping[str, Any], call: Call, timeouts: dict[str, float]
    ) -> AsyncGenerator[Any]:
        from enginehost_engines.rest.stream import InTime, items

        config = self.config
        response = await self._opened(message, parameters, call, timeouts)
        response.stream = InTime(cast("Any", response.stream), lambda: self._until_deadline(call))
        try:
            async for item in items(response, config.max_response_bytes, self._host, config.response_charset):
                found = self._select_from(item)
                if found is not NOTHING:
                    yield found
        finally:
            await response.aclose()

    async def _in_time(self, source: AsyncIterator[Any], call: Call) -> AsyncIterator[Any]:
        while True:
            with self._until_deadline(call):
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    return
            yield item
