"""Who offers a function, and which of them to ask next."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enginehost.databus.exchange import Exchange

UNKNOWN_SECONDS = 0.001
"""What a replica is thought to take that nobody has asked yet, where nobody has asked any."""

AVOID_SECONDS = 1.0
"""How long a replica that was overloaded or unavailable is asked only where there is no other."""

_AVOIDED = 1e6
_WEIGHT = 0.2
_turn = count()


@dataclass(slots=True, eq=False, weakref_slot=True)
class Provider:
    """A host (or another program) that offers functions, as long as it runs.

    ``incarnation`` is empty for a program that knows only the types; ``partition`` is where it takes
    requests. ``signer`` names the trusted key that signs what it says, where it does.
    """

    participant: str
    host_id: str
    incarnation: str
    partition: str
    signer: str = ""
    key: str = ""
    offers: int = 0
    reached: bool = False
    gone: bool = False
    reaching: asyncio.Task[bool] | None = None
    sent: int = 0
    """Signed requests sent to it."""
    exchanges: set[Exchange] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Replica:
    """One provider of one function. ``seconds`` is what its latest answers took, on average.

    ``heard`` is when it answered for the last time, or when it was asked while it owed no answer.
    """

    function_id: str
    provider: Provider
    outstanding: int = 0
    seconds: float = 0.0
    avoid_until: float = 0.0
    heard: float = 0.0

    def asked(self, now: float) -> None:
        """Count a call that is on its way."""
        if not self.outstanding:
            self.heard = now
        self.outstanding += 1

    def expected(self, now: float, unknown: float) -> float:
        """What a call takes there: at least as long as it has been silent while it owes answers."""
        seconds = self.seconds or unknown
        return max(seconds, now - self.heard) if self.outstanding else seconds

    def answered(self, seconds: float, now: float) -> None:
        """Count an answer."""
        self.heard = now
        self.seconds = seconds if not self.seconds else self.seconds + _WEIGHT * (seconds - self.seconds)


def choose(replicas: Sequence[Replica], tried: Collection[Replica], now: float) -> Replica | None:
    """The replica that will probably answer first; ``None`` where all have gone or were tried.

    Its calls that are on their way, times what a call takes there. ``now`` is monotonic seconds.
    """
    if len(replicas) == 1:
        only = replicas[0]
        return None if only.provider.gone or only in tried else only
    asked = [replica.seconds for replica in replicas if replica.seconds]
    unknown = min(asked, default=UNKNOWN_SECONDS)
    best, least, turn = None, 0.0, next(_turn)
    for place in range(len(replicas)):
        replica = replicas[(place + turn) % len(replicas)]
        if replica.provider.gone or replica in tried:
            continue
        score = (replica.outstanding + 1) * replica.expected(now, unknown)
        if replica.avoid_until > now:
            score += _AVOIDED
        if best is None or score < least:
            best, least = replica, score
    return best
