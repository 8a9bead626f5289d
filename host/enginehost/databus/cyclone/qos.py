"""Quality of service of every endpoint, as peers of other makes match it."""

from __future__ import annotations

from cyclonedds.qos import Policy, Qos
from cyclonedds.util import duration

from enginehost.databus.struct import Profile
from enginehost.databus.types import CALLS, DISCOVERY

UNTAKEN_SAMPLES = 8_192
"""Requests, or replies, that may wait in a reader; then writers are slowed down."""

RESERVE_DEPTH = 64
"""Replies of which the reserve can send lost pieces again (and which it keeps in memory)."""

WRITE_XCDR1 = Policy.DataRepresentation(use_cdrv0_representation=True)
"""Plain CDR only: other stacks' default readers take nothing else."""
READ_BOTH = Policy.DataRepresentation(use_cdrv0_representation=True, use_xcdrv2_representation=True)

RELIABLE = Policy.Reliability.Reliable(0)
"""A write never waits inside the library (see ``outlet.py`` and ``path.py``)."""

LOSS_IS_NO_DISPOSAL = Policy.WriterDataLifecycle(autodispose=False)
"""Only what was taken back is disposed of, so that readers can tell it from what was lost."""


def writer_qos(profile: Profile) -> Qos:
    """The writers of a topic with this profile."""
    return Qos(WRITE_XCDR1, LOSS_IS_NO_DISPOSAL, base=_common(profile))


def reader_qos(profile: Profile) -> Qos:
    """The readers of a topic with this profile."""
    return Qos(READ_BOTH, base=_common(profile))


def _common(profile: Profile) -> Qos:
    return Qos(
        RELIABLE,
        Policy.Durability.TransientLocal if profile.durable else Policy.Durability.Volatile,
        Policy.History.KeepLast(profile.depth) if profile.depth else Policy.History.KeepAll,
        *((Policy.Liveliness.Automatic(duration(seconds=profile.lease)),) if profile.lease else ()),
    )


CAPABILITY_WRITER = writer_qos(DISCOVERY)
CAPABILITY_READER = reader_qos(DISCOVERY)
CALL_WRITER = writer_qos(CALLS)
CALL_READER = Qos(Policy.ResourceLimits(max_samples=UNTAKEN_SAMPLES), base=reader_qos(CALLS))
RESERVE_WRITER = Qos(Policy.History.KeepLast(RESERVE_DEPTH), base=CALL_WRITER)
