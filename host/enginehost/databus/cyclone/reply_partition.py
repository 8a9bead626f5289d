"""What the writer of a requester says to those that discover it: in which partition replies are read."""

from __future__ import annotations

from enginehost.databus.metadata import is_incarnation, partition_of

_MARK = b"enginehost reply_partition="
_PREFIX = partition_of("")


def user_data(partition: str) -> str:
    """The user data of a writer whose requests are to be answered in ``partition``."""
    return f"{_MARK.decode()}{partition}" if partition else ""


def partition_in(data: bytes) -> str:
    """The partition that user data names; empty where it names none of our form."""
    partition = data.removeprefix(_MARK).decode(errors="replace") if data.startswith(_MARK) else ""
    return partition if is_incarnation(partition.removeprefix(_PREFIX)) else ""
