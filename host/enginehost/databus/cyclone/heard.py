"""The capabilities that one reader has heard of."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cyclonedds.core import InstanceState

from enginehost.databus.cyclone.cdr import Codec
from enginehost.databus.port import Capability
from enginehost.databus.sight import Offer
from enginehost.databus.types import FUNCTION_CAPABILITY

ANNOUNCED_WITHIN = 5.0
"""Seconds within which the writer of a sample is announced; else it has left."""

MOST_OFFERS = 100_000
"""Instances that are remembered: peers choose how many there are."""


_CODEC = Codec(FUNCTION_CAPABILITY)
"""Reads what hosts read, also where a type has fewer members (and XCDR2 says where they end)."""


@dataclass(slots=True)
class _Instance:
    capability: Capability
    written: float
    arrived: float
    ended: bool = False


class Heard:
    """Instances by their handles and those of their writers, for two hosts may have one id.

    Whose writers they are is said when the offers are asked for.
    """

    def __init__(self) -> None:
        self._instances: dict[tuple[int, int], _Instance] = {}
        self._undecodable: dict[int, int] = {}
        self._least: dict[int, float] = {}

    def note(self, data: bytes, info: Any) -> None:
        """Take a sample as the library gives it."""
        if info.instance_state == InstanceState.Alive:
            if info.valid_data:
                self._take(data, info)
        elif one := self._instances.get((info.instance_handle, info.publication_handle)):
            one.ended = True
        else:
            for key, instance in self._instances.items():
                if key[0] == info.instance_handle:
                    instance.ended = True

    def offers(self, writers: Mapping[int, str]) -> Iterator[Offer]:
        """What is on offer. ``writers`` are those that are announced now, and whose they are.

        An instance that ended although its writer is still announced is *lost*: that writer is not heard of.
        (Where it was taken back, :meth:`forget_ended` has been called since.)
        """
        recently = time.time() - ANNOUNCED_WITHIN
        kept = self._instances.items()
        self._instances = {key: one for key, one in kept if key[1] in writers or one.arrived > recently}
        for (_, writer), one in self._instances.items():
            if program := writers.get(writer):
                yield Offer(one.capability, program, one.written, one.arrived, lost=one.ended)

    def forget_ended(self) -> None:
        """All writers are heard of: what ended was taken back."""
        self._instances = {handle: one for handle, one in self._instances.items() if not one.ended}

    def undecodable(self, writers: Mapping[int, str]) -> dict[str, int]:
        """Samples that could not be read, by program."""
        found: dict[str, int] = {}
        for writer, count in self._undecodable.items():
            program = writers.get(writer, "")
            found[program] = found.get(program, 0) + count
        return found

    def least_delays(self, writers: Mapping[int, str]) -> dict[str, float]:
        """By program, the least time by our clock from its writing (by its own) to our having it."""
        found: dict[str, float] = {}
        for writer, delay in self._least.items():
            if program := writers.get(writer):
                found[program] = min(delay, found.get(program, delay))
        return found

    def _take(self, data: bytes, info: Any) -> None:
        writer, now, written = info.publication_handle, time.time(), info.source_timestamp / 1e9
        try:
            capability = Capability(*_CODEC.decode(data))
        except ValueError:  # peers choose the bytes
            self._undecodable[writer] = self._undecodable.get(writer, 0) + 1
            return
        self._least[writer] = min(now - written, self._least.get(writer, now - written))
        key = (info.instance_handle, writer)
        if key in self._instances or len(self._instances) < MOST_OFFERS:
            self._instances[key] = _Instance(capability, written, now)
