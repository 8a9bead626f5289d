"""Domains of this process: each has one configuration, shared by all hosts that run in it."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, replace
from xml.sax.saxutils import quoteattr

from cyclonedds.core import DDSException
from cyclonedds.domain import Domain

from enginehost.databus.config import LOOPBACK, NETWORK_FRAGMENT, DatabusConfig, is_address
from enginehost.databus.peers import looked_up
from enginehost.databus.surroundings import MOST_PARTICIPANTS, is_full
from enginehost.errors import ConfigError, EngineUnavailable

MOST_SAMPLE_BYTES = 64 * 1024 * 1024
"""Larger samples are not reassembled; the host refuses parameters far below that."""

NACK_MS = 10
"""After how long a reader asks for pieces that it lacks: with the library's 100 ms one lost is a pause."""

HEARTBEAT_MS = 20
"""After how long a writer asks readers whether they have everything; a lost last datagram waits that long."""
LEAST_HEARTBEAT_MS = 4
"""The same while much is on its way."""

UNACKNOWLEDGED_BYTES = 1_536 * 1024
"""What a writer may have on its way before it has to wait.

With the library's 30 kB, at first, every larger sample has to be acknowledged before the next one goes.
"""

SOUGHT_SECONDS = 86_400
"""For how long a participant that was lost is sought where it was.

(With the library's default interval both sides of a pair that lost each other wait half a minute before they
look for the other again, and with its default delay they give up after a minute.)
"""

HERE_SECONDS = 2
"""For how long a participant that starts looks for others on its own machine; later ones find it."""
PEER_SECONDS = 600
"""For how long it looks at the addresses that the settings name."""

RECEIVE_BYTES = 4 * 1024 * 1024
"""What the system is asked to keep of datagrams that come faster than they are read; it may give less."""


HEADROOM = 5_500
FRAME_HEADROOM = 152
"""What a message may be longer than a fragment.

It holds the headers, and with small fragments no more than one of them, or it would be cut into several
frames again.
"""


def domain_xml(config: DatabusConfig) -> str:
    """Cyclone's configuration. Without one it takes the first real interface and multicasts."""
    interface = config.interface
    if config.loopback and not is_address(interface):
        interface = LOOPBACK
    attribute = "address" if is_address(interface) else "name"
    peers = dict.fromkeys(config.peers, PEER_SECONDS) | ({interface: HERE_SECONDS} if config.loopback else {})
    fragment = config.fragment
    message = min(65_500, fragment + (HEADROOM if fragment > NETWORK_FRAGMENT else FRAME_HEADROOM))
    return (
        '<CycloneDDS><Domain Id="any"><General>'
        f"<Interfaces><NetworkInterface {attribute}={quoteattr(interface)}/></Interfaces>"
        f"<AllowMulticast>{'false' if config.loopback else 'default'}</AllowMulticast>"
        f"<MaxMessageSize>{message}B</MaxMessageSize>"
        f"<MaxRexmitMessageSize>{message}B</MaxRexmitMessageSize>"
        f"<FragmentSize>{fragment}B</FragmentSize></General>"
        f"<Discovery><LeaseDuration>{config.lease}s</LeaseDuration>"
        f"<SPDPInterval>{config.lease / 2}s</SPDPInterval>"
        f"<DiscoveredLocatorPruneDelay>{SOUGHT_SECONDS}s</DiscoveredLocatorPruneDelay>"
        "<ParticipantIndex>auto</ParticipantIndex>"
        f"<MaxAutoParticipantIndex>{MOST_PARTICIPANTS}</MaxAutoParticipantIndex>"
        f"<Peers>{''.join(_peer(*one) for one in peers.items())}</Peers></Discovery>"
        f"<Internal>{_internal()}</Internal>"
        "</Domain></CycloneDDS>"
    )


def _peer(address: str, seconds: int) -> str:
    return f'<Peer address={quoteattr(address)} PruneDelay="{seconds}s"/>'


def _internal() -> str:
    return (
        f"<MaxSampleSize>{MOST_SAMPLE_BYTES}B</MaxSampleSize><NackDelay>{NACK_MS} ms</NackDelay>"
        f'<HeartbeatInterval min="1 ms" minsched="{LEAST_HEARTBEAT_MS} ms">{HEARTBEAT_MS} ms'
        "</HeartbeatInterval>"
        f"<Watermarks><WhcHigh>{UNACKNOWLEDGED_BYTES}B</WhcHigh>"
        f"<WhcHighInit>{UNACKNOWLEDGED_BYTES}B</WhcHighInit></Watermarks>"
        f'<SocketReceiveBufferSize max="{RECEIVE_BYTES}B"/>'
        "<WriterLingerDuration>0 ms</WriterLingerDuration>"  # we wait ourselves, see outlet.py
    )


@dataclass(slots=True)
class _Shared:
    domain: Domain
    xml: str
    lost: tuple[str, ...]
    users: int = 1


_lock = threading.Lock()  # hosts of one process may start and stop on several threads
_domains: dict[int, _Shared] = {}


def enter_domain(config: DatabusConfig) -> None:
    """Make sure that the domain has this configuration, until :func:`leave_domain`.

    Raises :class:`EngineUnavailable` where it has another one, or one that was not set here, and
    :class:`ConfigError` for an interface that this machine does not have. Looks up peers, which may take a
    while; those without an address are left out (:func:`lost_peers`).
    """
    _check_interface(config)
    xml = domain_xml(config)
    found, lost = looked_up(config.peers)
    with _lock:
        shared = _domains.get(config.domain)
        if shared is None:
            created = _create(config, domain_xml(replace(config, peers=found)))
            _domains[config.domain] = _Shared(created, xml, lost)
        elif shared.xml == xml:
            shared.users += 1
        else:
            raise EngineUnavailable(
                f"domain {config.domain} is open in this process with other network settings"
            )


def _check_interface(config: DatabusConfig) -> None:
    """The library would write a line of its own to standard error, and not say which ones there are."""
    if config.loopback or is_address(config.interface):
        return
    names = [name for _, name in socket.if_nameindex()]
    if config.interface not in names:
        raise ConfigError(
            f"this machine has no network interface {config.interface!r}",
            hint=f"there are {', '.join(names)} (setting databus.interface)",
            reason="databus-interface",
        )


def leave_domain(number: int) -> None:
    """The counterpart of :func:`enter_domain`."""
    with _lock:
        shared = _domains[number]
        shared.users -= 1
        if not shared.users:
            del _domains[number]
            shared.domain.__del__()


def lost_peers(number: int) -> tuple[str, ...]:
    """The peers that an open domain does without, since they have no address."""
    with _lock:
        return _domains[number].lost if number in _domains else ()


def _create(config: DatabusConfig, xml: str) -> Domain:
    number = config.domain
    try:
        return Domain(number, xml)
    except DDSException as failure:
        if failure.code == DDSException.DDS_RETCODE_PRECONDITION_NOT_MET:
            reason = f"domain {number} is open in this process already, with settings that are not ours"
            raise EngineUnavailable(reason) from failure
        raise not_joined(config) from failure


def not_joined(config: DatabusConfig) -> EngineUnavailable:
    """Why the library could not open the domain; its own words go to standard error alone."""
    number = config.domain
    if is_full(number, MOST_PARTICIPANTS + 1):
        return EngineUnavailable(
            f"DDS domain {number} is full: {MOST_PARTICIPANTS + 1} processes of this machine are on it "
            "(`enginehost databus` with another --domain shows whether there is room)",
            reason="domain-full",
        )
    return EngineUnavailable(
        f"cannot join DDS domain {number} on {config.interface}: is that interface up and this machine's "
        f"(IPv4), and are there fewer than {MOST_PARTICIPANTS} participants of that domain on this machine?"
    )
