"""Addresses of peers, found ahead of the DDS library: one that it cannot find ends the process."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Sequence

from enginehost.address import parse_peer
from enginehost.diagnostics import IN_PROBLEMS

log = logging.getLogger("enginehost.databus")

LOST = "unresolved_peers"
"""Under which name a transport describes the peers that it does without."""

LOST_HINT = "mend the names in the setting databus.peers, or name addresses"


def looked_up(peers: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """IPv4 addresses (``address`` or ``address:port``) of ``peers``, and the peers that have none.

    Asks the system, which may take a while: call it on a thread. The log names those that have none.
    """
    found: dict[str, None] = {}
    lost: list[str] = []
    for peer in peers:
        if addresses := _addresses(peer):
            found |= dict.fromkeys(addresses)
        else:
            lost.append(peer)
    if lost:
        log.warning("%s", told(lost), extra=IN_PROBLEMS)
    return tuple(found), tuple(lost)


def told(lost: Sequence[str]) -> str:
    """What to say of peers without an address."""
    return f"databus peers without an IPv4 address are left out: {', '.join(lost)}"


def _addresses(peer: str) -> list[str]:
    try:
        host, port = parse_peer(peer)
        answers = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_DGRAM)
    except (OSError, ValueError):  # a UnicodeError is a ValueError
        return []
    suffix = f":{port}" if port is not None else ""
    addresses = [str(answer[4][0]) for answer in answers]
    return [f"{one}{suffix}" for one in addresses if not ipaddress.ip_address(one).is_unspecified]
