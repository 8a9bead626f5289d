"""Where the databus runs: domain, network interface, sizes."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from enginehost.databus.options import SECOND_ERA, converted, require_known
from enginehost.errors import ConfigError

if TYPE_CHECKING:
    from enginehost.settings import HostSettings

LOOPBACK = "127.0.0.1"
LOOPBACK_FRAGMENT = 60_000
"""Few datagrams: on loopback none is lost."""
NETWORK_FRAGMENT = 1_300
"""One Ethernet frame: a larger datagram is lost as a whole with any of its frames.

(Measured: with one frame in a hundred lost, a megabyte in pieces of 60,000 bytes does not arrive in 15 s, and
in these in 0.1 s.)
"""
LAST_DOMAIN = 232
"""The highest domain id whose ports (7400 + 250 × id + …) exist."""

_LOOPBACK_NAMES = frozenset({"lo", "lo0", "localhost"})
"""Loopback's names on various systems: settings move between machines."""


class _Checked(type):
    """Makes of an option that there is not a :class:`ConfigError`, which names the nearest one."""

    if not TYPE_CHECKING:  # the constructor's own parameters are what a type checker should see

        def __call__(cls, *args: Any, **options: Any) -> Any:
            require_known(options, [one.name for one in fields(cls)])
            return super().__call__(*args, **options)


@dataclass(frozen=True, slots=True)
class DatabusConfig(metaclass=_Checked):
    """How a host takes part in the databus. Raises :class:`ConfigError` for what cannot be.

    Lists may be any collection, or one text with commas; paths may be text.

    ``interface`` is an address or the name of a network interface; the bus leaves loopback only when
    another one is named. ``peers`` are names or addresses, with or without ``:PORT``, to look for
    participants at where multicast does not reach them; one that cannot be found is left out, which the log
    and ``describe()`` say. ``service`` is the name under which all functions of this host are offered.
    ``transport`` is ``cyclone``, or one that a plugin adds (hook ``register_transports``). With ``tags``,
    only functions that have one of them are offered.
    ``fragment_bytes`` is the largest piece that one datagram carries; by default 60,000 on loopback, where
    none is lost, and elsewhere 1,300, which needs no IP fragmentation on Ethernet. ``lease`` is for how many
    seconds a participant that is not heard of any more is still believed to be there. More than
    ``max_in_flight`` calls at once are refused as ``overloaded`` (three quarters of that from one
    participant; a host's own ``max_in_flight`` holds too, and is the default where a host joins by its
    settings), parameters over ``max_request_bytes`` as ``too_large``. ``max_result_bytes`` is the largest
    result, or item of a stream, that a :class:`~enginehost.databus.Client` takes, as JSON; a host has a limit
    of its own. ``state_dir`` keeps the host's id;
    without it the id is new at each start.

    ``key_file`` has the key that signs and ``trust_file`` those whose signatures count; without them they
    are looked for in ``state_dir``. ``sign`` ``"auto"`` means where there is a key and the bus leaves
    loopback. ``accept`` says whose functions enter the catalog: ``"any"``, ``"trusted"`` (signed with a
    trusted key), or ``"auto"``: any on loopback, else trusted. ``allow_unsigned`` are names of functions,
    or patterns, that unsigned requests may call in any case but where the policy denies it.

    ``directory`` off: the functions of others do not enter the catalog. Of them, the patterns
    ``let_in_services``, ``let_in_functions`` (``name`` or ``service.name``) and ``let_in_tags`` choose; each
    that is given has to fit.
    ``events`` off tells monitors nothing. ``log_level`` is the least severe level of the log that they are
    told (``debug``, ``info``, ``warning``, ``error``), or ``off``; ``auto`` is ``warning`` on loopback, else
    ``off``.
    ``event_values`` lets monitors read arguments, results, questions and answers too, where the settings of
    the host keep them.
    ``profiles``: ``genesis1`` holds always, ``genesis2`` adds the topics of Genesis 0.3.
    """

    domain: int = 0
    interface: str = LOOPBACK
    service: str = "enginehost"
    peers: tuple[str, ...] = ()
    fragment_bytes: int | None = None
    lease: float = 2.0
    max_in_flight: int = 10_000
    max_request_bytes: int = 10 * 1024 * 1024
    max_result_bytes: int = 16 * 1024 * 1024
    state_dir: Path | None = None
    transport: str = "cyclone"
    tags: tuple[str, ...] = ()
    key_file: Path | None = None
    trust_file: Path | None = None
    sign: bool | Literal["auto"] = "auto"
    accept: Literal["auto", "any", "trusted"] = "auto"
    allow_unsigned: tuple[str, ...] = ()
    events: bool = True
    log_level: str = "auto"
    event_values: bool = False
    profiles: tuple[str, ...] = ("genesis1",)
    directory: bool = True
    let_in_services: tuple[str, ...] | None = None
    let_in_functions: tuple[str, ...] | None = None
    let_in_tags: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, converted(one.name, getattr(self, one.name)))
        if not 0 <= self.domain <= LAST_DOMAIN:
            raise ConfigError(f"databus domain {self.domain} is not between 0 and {LAST_DOMAIN}")
        if not 1 <= len(self.service.encode(errors="replace")) <= 256 or not self.service.isprintable():
            raise ConfigError("the databus service name must be printable text of 1 to 256 bytes")
        if not 1_000 <= self.fragment <= 60_000:
            raise ConfigError("databus fragments have 1,000 to 60,000 bytes")
        if not 1 <= self.lease <= 3_600:
            raise ConfigError("the databus lease has 1 to 3,600 seconds")
        for limit in ("max_in_flight", "max_request_bytes", "max_result_bytes"):
            if getattr(self, limit) < 1:
                raise ConfigError(f"databus {limit} is at least 1")
        if not (self.interface and self.interface.isascii() and self.interface.isprintable()):
            message = f"{self.interface!r} is neither a network address nor the name of an interface"
            raise ConfigError(message)
        if not self.transport:
            raise ConfigError("databus transport is cyclone, or one that a plugin adds")

    @property
    def fragment(self) -> int:
        """The largest piece in one datagram, bytes."""
        if self.fragment_bytes is not None:
            return self.fragment_bytes
        return LOOPBACK_FRAGMENT if self.loopback else NETWORK_FRAGMENT

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the bus."""
        if self.interface in _LOOPBACK_NAMES:
            return True
        return is_address(self.interface) and ipaddress.ip_address(self.interface).is_loopback

    @property
    def second_era(self) -> bool:
        """Whether the topics of Genesis 0.3 are written too."""
        return SECOND_ERA in self.profiles

    @property
    def key_path(self) -> Path | None:
        """Where the key that signs is, if there is one."""
        return self.key_file or (self.state_dir and _key_in(self.state_dir))

    @property
    def trust_path(self) -> Path | None:
        """Where the trusted keys are, if any are."""
        return self.trust_file or (self.state_dir and _trusted_in(self.state_dir))

    @property
    def accepts_any(self) -> bool:
        """Whether functions enter the catalog that no trusted key signed."""
        return self.accept == "any" or (self.accept == "auto" and self.loopback)


def config_of(settings: HostSettings) -> DatabusConfig:
    """The databus as the settings of a host have it."""
    bus = settings.databus
    return DatabusConfig(
        domain=bus.domain,
        interface=bus.interface,
        service=bus.service,
        transport=bus.transport,
        tags=bus.tags,
        peers=bus.peers,
        fragment_bytes=bus.fragment_bytes,
        lease=bus.lease,
        max_request_bytes=bus.max_request_bytes,
        max_result_bytes=settings.max_result_bytes,
        max_in_flight=settings.max_in_flight,
        state_dir=settings.state_dir,
        key_file=bus.key_file,
        trust_file=bus.trust_file,
        sign=bus.sign,
        accept=bus.accept,
        allow_unsigned=bus.allow_unsigned,
        events=bus.events,
        log_level=bus.log_level,
        event_values=bus.event_values,
        profiles=bus.profiles,
        directory=bus.directory,
        let_in_services=bus.let_in_services,
        let_in_functions=bus.let_in_functions,
        let_in_tags=bus.let_in_tags,
    )


def key_file(settings: HostSettings) -> Path:
    """Where the key of a host with these settings is kept."""
    return settings.databus.key_file or _key_in(settings.state_dir)


def trust_file(settings: HostSettings) -> Path:
    """Where the keys that a host with these settings trusts are kept."""
    return settings.databus.trust_file or _trusted_in(settings.state_dir)


def _key_in(state_dir: Path) -> Path:
    return state_dir / "databus" / "key.pem"


def _trusted_in(state_dir: Path) -> Path:
    return state_dir / "databus" / "trusted.yaml"


def config_for(wanted: DatabusConfig | str | None, settings: HostSettings) -> DatabusConfig | None:
    """What a host with these ``settings`` joins that was told ``wanted``; ``None`` where it joins no bus."""
    if wanted is None or settings.databus.enabled is False:
        return None
    if not isinstance(wanted, DatabusConfig):
        return config_of(settings)
    return replace(
        wanted,
        max_in_flight=min(wanted.max_in_flight, settings.max_in_flight),
        state_dir=wanted.state_dir or settings.state_dir,
    )


def is_address(text: str) -> bool:
    """Whether ``text`` is an IP address rather than an interface's name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
