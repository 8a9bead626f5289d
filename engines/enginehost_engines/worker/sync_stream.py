"""One stream of a worker that serves one call at a time: its items, as the reader asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter, sleep

from enginehost_engines.worker.batches import HELD_SECONDS, Batch

_LOOK_SECONDS = 0.0005


class SyncStream:
    """Sends items by ``send``. Where some are held, a thread sends them soon, whatever the function does."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._batch = Batch(send)
        self._lock = threading.Lock()  # the thread and the function both send
        self._held = threading.Event()
        self._thread: threading.Thread | None = None
        self._over = False

    @property
    def room(self) -> int:
        """How many more items the reader has asked for."""
        return self._batch.room

    @property
    def holds(self) -> bool:
        """Whether items are held: the next of them come quickly."""
        return self._batch.holds

    def more(self, count: int) -> None:
        """The reader asks for so many more."""
        self._batch.room += count

    def add(self, item: bytes) -> None:
        """Send an item, or hold it for a moment."""
        with self._lock:
            held = self._batch.add(item)
        if held and not self._held.is_set():
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="enginehost-stream", daemon=True)
                self._thread.start()
            self._held.set()

    def end(self) -> None:
        """Send what is held; there is no more."""
        self._over = True
        self._held.set()
        with self._lock:
            self._batch.flush()

    def _follow(self) -> None:
        while not self._over:
            self._held.wait()
            sleep(_LOOK_SECONDS)
            with self._lock:
                if not self._batch.holds:
                    self._held.clear()
                elif perf_counter() - self._batch.since >= HELD_SECONDS:
                    self._batch.flush()
