"""What a reactor answers: failures are raised, warnings logged, nouns made plain values."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Generator
from typing import Any

from enginehost.reactor.nouns import NounMetadata, without_nouns
from enginehost.reactor.types import PixelDataType, PixelOperationType


class ReactorFailed(Exception):
    """The reactor answered with an ERROR noun, or raises this itself; the text is the noun's.

    SEMOSS's name is ``SemossPixelException``.
    """

    def __init__(self, noun: NounMetadata | str) -> None:
        if not isinstance(noun, NounMetadata):
            noun = NounMetadata(noun, PixelDataType.CONST_STRING, PixelOperationType.ERROR)
        super().__init__(noun.text)
        self.noun = noun

    def get_noun(self) -> NounMetadata:
        """What the reactor answered."""
        return self.noun

    getNoun = get_noun  # noqa: N815 - SEMOSS's name


def noun_of(answer: Any, who: str) -> NounMetadata:
    """One answer of the reactor ``who`` as a noun, its warnings logged. Raises :class:`ReactorFailed`."""
    noun = answer if isinstance(answer, NounMetadata) else NounMetadata(answer)
    if noun.warns and not noun.failed:
        logging.getLogger(who).warning("%s", noun.text)
    for beside in noun.additional:
        logging.getLogger(who).log(_level(beside), "%s", beside.text)
    if noun.failed:
        raise ReactorFailed(noun)
    return noun


def _level(noun: NounMetadata) -> int:
    if noun.failed:
        return logging.ERROR
    return logging.WARNING if noun.warns else logging.INFO


def plain(answer: Any, who: str) -> Any:
    """What ``execute`` gave, as the host wants it: a value, or an awaitable or generator of plain values."""
    if inspect.isasyncgen(answer):
        return _plain_later(answer, who)
    if inspect.isgenerator(answer):
        return _plain_items(answer, who)
    if inspect.isawaitable(answer):
        return _plain_awaited(answer, who)
    return _plain(answer, who)


def _plain(answer: Any, who: str) -> Any:
    # what is no noun is not made one: predicting the type of each item of a stream would cost time
    return noun_of(answer, who).plain() if isinstance(answer, NounMetadata) else without_nouns(answer)


async def _plain_awaited(answer: Any, who: str) -> Any:
    return _plain(await answer, who)


def _plain_items(items: Any, who: str) -> Generator[Any, None, None]:
    try:
        for item in items:
            yield _plain(item, who)
    finally:
        items.close()


async def _plain_later(items: Any, who: str) -> AsyncGenerator[Any, None]:
    try:
        async for item in items:
            yield _plain(item, who)
    finally:
        await items.aclose()


async def awaited(answer: Any, who: str) -> NounMetadata:
    """What a reactor of either colour gave, as one noun; of a generator the list of its items."""
    if inspect.isasyncgen(answer):
        return NounMetadata([item async for item in _plain_later(answer, who)])
    return noun_of(await answer, who) if inspect.isawaitable(answer) else settled(answer, who)


def settled(answer: Any, who: str) -> NounMetadata:
    """The same for code that cannot wait: what is async runs to its end on a loop of its own.

    Raises ``TypeError`` where a loop runs already.
    """
    if inspect.isgenerator(answer):
        return NounMetadata(list(_plain_items(answer, who)))
    if not (inspect.isawaitable(answer) or inspect.isasyncgen(answer)):
        return noun_of(answer, who)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(awaited(answer, who))
    if inspect.iscoroutine(answer):
        answer.close()
    raise TypeError(f"{who} is async: write await self.await_reactor(…)")
