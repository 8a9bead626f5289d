"""What of keys is set up here, for who looks at the bus."""

from __future__ import annotations

from dataclasses import dataclass

from enginehost.databus.config import DatabusConfig
from enginehost.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Signing:
    """``key`` is the id of the key that a host with these settings signs with; empty where it does not.

    ``trusted`` counts the keys that it trusts. ``accepts_any``: it takes in functions that none of them
    signed. ``problems`` are those of the two files.
    """

    key: str = ""
    trusted: int = 0
    accepts_any: bool = True
    problems: tuple[str, ...] = ()


def signing_of(config: DatabusConfig) -> Signing:
    """What is set up; a bad file is told in ``problems``."""
    problems: list[str] = []
    key = ""
    trusted = 0
    try:
        from enginehost.databus.keys import signing_key

        found = signing_key(config)
        key = found.id if found else ""
    except ConfigError as error:
        problems.append(str(error))
    try:
        from enginehost.databus.trust import read_trust

        trusted = len(read_trust(config.trust_path).keys) if config.trust_path else 0
    except ConfigError as error:
        problems.append(str(error))
    return Signing(key, trusted, config.accepts_any, tuple(problems))
