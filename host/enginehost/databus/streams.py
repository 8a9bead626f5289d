"""A function's items on their way to a requester: as many at once as are ready, as many as it allows."""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any

from enginehost.drive import resume
from enginehost.engine import Call
from enginehost.errors import CallTimeout

MOST_ITEMS = 64
"""Items that ride in one reply, where the requester says that it takes several."""

MOST_BYTES = 256 * 1024
"""Bytes of items after which a reply takes no further one."""

BEHIND = "its requester does not take its items"


class Unreachable(Exception):
    """The requester takes no replies any more."""


class Credit:
    """How many items a requester still allows."""

    __slots__ = ("_more", "left")

    def __init__(self, items: int) -> None:
        self.left = items
        self._more = asyncio.Event()

    def add(self, items: int, most: int) -> None:
        """Allow ``items`` more, up to ``most`` at once."""
        self.left = min(most, self.left + items)
        self._more.set()

    async def some(self) -> None:
        """Wait until an item is allowed."""
        while self.left <= 0:
            self._more.clear()
            await self._more.wait()


class Ahead:
    """Items of a stream, taken one by one; :meth:`ready` takes one that costs no waiting.

    A function's step that was begun and waits is not lost: the next :meth:`item` goes on with it. Meanwhile
    this task must wait for nothing else (:attr:`begun`): a timer of the step cancels the task that began it.
    """

    def __init__(self, items: AsyncGenerator[bytes, None]) -> None:
        self._items = items
        self._step: Any = None
        self._pending: Any = None
        self._failure: BaseException | None = None

    @property
    def begun(self) -> bool:
        """Whether a step has begun and waits."""
        return self._step is not None

    async def item(self) -> bytes:
        """The next item. Raises ``StopAsyncIteration`` at the end, and what the stream raises."""
        if self._failure is not None:
            raise self._failure
        if self._step is None:
            return await anext(self._items)
        step, self._step = self._step, None
        return await resume(step, self._pending)

    async def ready(self) -> bytes | None:
        """The next item, if it is ready; a function that only gave others their turn is asked on."""
        if self._failure is not None:
            return None
        step: Any = anext(self._items)
        try:
            pending = step.send(None)
            while pending is None:
                done, pending = await _turn(step)
                if done:
                    return pending
        except StopIteration as item:
            return item.value
        except asyncio.CancelledError:
            raise
        except BaseException as failure:  # noqa: BLE001 - kept for who asks for the next item
            self._failure = failure
            return None
        self._step, self._pending = step, pending
        return None


@types.coroutine
def _turn(step: Any) -> Generator[Any, Any, tuple[bool, Any]]:
    """One turn of the event loop, then ``step`` goes on; whether it is done, and with what."""
    try:
        try:
            yield
        except GeneratorExit:
            step.close()
            raise
        except BaseException as error:  # noqa: BLE001 - whatever is thrown in belongs to the step
            return False, step.throw(error)
        return False, step.send(None)
    except StopIteration as item:
        return True, item.value


Give = Callable[[Sequence[bytes]], Coroutine[Any, Any, bool]]
"""Sends items in one reply; whether the requester takes them."""


async def give_items(
    items: AsyncGenerator[bytes, None], give: Give, call: Call, credit: Credit | None, most: int
) -> None:
    """Send all items, at most ``most`` in one reply, and no more than ``credit`` allows (``None``: any).

    Raises what the stream raises, :class:`CallTimeout` where its deadline passes while the requester allows
    nothing or takes nothing, and :class:`Unreachable`. Other requesters' streams go on meanwhile.
    """
    ahead, patience = Ahead(items), _Patience(items, call)
    sending: asyncio.Task[bool] | None = None
    try:
        while True:
            if credit is not None and credit.left <= 0:
                await patience.wait(credit.some())
            end, batch = None, []
            try:
                batch = [await ahead.item()]
            except Exception as failure:  # noqa: BLE001 - raised when what came before it is sent
                end = failure
            if sending is not None:
                await patience.taken(sending)
                sending = None
            if isinstance(end, StopAsyncIteration):
                return
            if end is not None:
                raise end
            await _fill(batch, ahead, most if credit is None else min(most, credit.left))
            if credit is not None:
                credit.left -= len(batch)
            if ahead.begun:
                sending = asyncio.get_running_loop().create_task(give(batch))
            else:
                await patience.taken(give(batch))
    finally:
        if sending is not None and not sending.done():
            sending.cancel()
            await asyncio.wait((sending,))
        await items.aclose()


async def _fill(batch: list[bytes], ahead: Ahead, most: int) -> None:
    size = len(batch[0])
    while len(batch) < most and size < MOST_BYTES and (item := await ahead.ready()) is not None:
        batch.append(item)
        size += len(item)


class _Patience:
    """How long a stream waits for its requester: as long as the call may take."""

    def __init__(self, items: AsyncGenerator[bytes, None], call: Call) -> None:
        self._items = items
        self._call = call
        self._begun = time.monotonic()

    async def taken(self, sending: Awaitable[bool]) -> None:
        """Raises :class:`Unreachable` where the requester does not take what is being sent."""
        if not await self.wait(sending):
            raise Unreachable

    async def wait(self, waiting: Awaitable[Any]) -> Any:
        """Wait, or let the stream itself end with the timeout, so that it is recorded so."""
        deadline = self._call.deadline
        try:
            async with asyncio.timeout_at(deadline):
                return await waiting
        except TimeoutError:
            if deadline is None:
                raise
            failure = CallTimeout(self._call.function, deadline - self._begun, BEHIND)
            await self._items.athrow(failure)
            raise failure from None
