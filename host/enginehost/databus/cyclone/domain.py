"""Domains of this process: each has one configuration, shared by all hosts that run in it."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from cyclonedds.core import DDSException
from cyclonedds.domain import Domain

from enginehost.databus.config import LOOPBACK, DatabusConfig, is_address
from enginehost.errors import ConfigError, EngineUnavailable

MOST_PARTICIPANTS = 110
"""Participants per machine and domain that find each other: a domain has 120 pairs of ports."""

MOST_SAMPLE_BYTES = 64 * 1024 * 1024
"""Larger samples are not reassembled; the host refuses parameters far below that."""


def domain_xml(config: DatabusConfig) -> str:
    """Cyclone's configuration. Without one it takes the first real interface and multicasts."""
    interface = config.interface
    if config.loopback and not is_address(interface):
        interface = LOOPBACK
    attribute = "address" if is_address(interface) else "name"
    peers = (*config.peers, interface) if config.loopback else config.peers
    message = min(65_500, config.fragment_bytes + 5_500)
    return (
        '<CycloneDDS><Domain Id="any"><General>'
        f"<Interfaces><NetworkInterface {attribute}={quoteattr(interface)}/></Interfaces>"
        f"<AllowMulticast>{'false' if config.loopback else 'default'}</AllowMulticast>"
        f"<MaxMessageSize>{message}B</MaxMessageSize>"
        f"<MaxRexmitMessageSize>{message}B</MaxRexmitMessageSize>"
        f"<FragmentSize>{config.fragment_bytes}B</FragmentSize></General>"
        "<Discovery><ParticipantIndex>auto</ParticipantIndex>"
        f"<MaxAutoParticipantIndex>{MOST_PARTICIPANTS}</MaxAutoParticipantIndex>"
        f"<Peers>{''.join(f'<Peer address={quoteattr(peer)}/>' for peer in peers)}</Peers></Discovery>"
        f"<Internal><MaxSampleSize>{MOST_SAMPLE_BYTES}B</MaxSampleSize></Internal>"
        "</Domain></CycloneDDS>"
    )


@dataclass(slots=True)
class _Shared:
    domain: Domain
    xml: str
    users: int = 1


_lock = threading.Lock()  # hosts of one process may start and stop on several threads
_domains: dict[int, _Shared] = {}


def enter_domain(config: DatabusConfig) -> None:
    """Make sure that the domain has this configuration, until :func:`leave_domain`.

    Raises :class:`EngineUnavailable` where it has another one, or one that was not set here, and
    :class:`ConfigError` for an interface that this machine does not have.
    """
    _check_interface(config)
    xml = domain_xml(config)
    with _lock:
        shared = _domains.get(config.domain)
        if shared is None:
            _domains[config.domain] = _Shared(_create(config, xml), xml)
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


def _create(config: DatabusConfig, xml: str) -> Domain:
    number = config.domain
    try:
        return Domain(number, xml)
    except DDSException as failure:
        if failure.code == DDSException.DDS_RETCODE_PRECONDITION_NOT_MET:
            reason = f"domain {number} is open in this process already, with settings that are not ours"
        else:
            reason = f"cannot open DDS domain {number} on {config.interface}: is that interface up?"
        raise EngineUnavailable(reason) from failure
