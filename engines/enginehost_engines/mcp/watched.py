"""A transport of the SDK's client that is looked at: what comes, and that it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import anyio


class Watched:
    """A transport whose messages are shown to ``passing`` before they are read, and whose end is told."""

    def __init__(
        self,
        way: AbstractAsyncContextManager[Any],
        passing: Callable[[Any], None],
        lost: Callable[[str], None],
    ) -> None:
        self._way = way
        self._passing = passing
        self._lost = lost

    async def __aenter__(self) -> Any:
        read, write = await self._way.__aenter__()
        return _WatchedStream(read, self._passing, self._lost), write

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._way.__aexit__(kind, error, trace)


class _WatchedStream:
    def __init__(self, stream: Any, passing: Callable[[Any], None], lost: Callable[[str], None]) -> None:
        self._stream = stream
        self._passing = passing
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> _WatchedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._stream.__anext__()
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._lost("the server closed the connection")
            raise
        self._passing(item)
        return item

    async def __aenter__(self) -> _WatchedStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> bool | None:
        return await self._stream.__aexit__(*raised)
