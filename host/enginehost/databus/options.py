"""What programs may give as options of :class:`DatabusConfig`, as the values that it keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from numbers import Real
from pathlib import Path
from typing import Any, cast

from enginehost.address import parse_peer
from enginehost.checked_model import nearest_hint
from enginehost.errors import ConfigError
from enginehost.policy_rules import split_commas

SECOND_ERA = "genesis2"
PROFILES = ("genesis1", SECOND_ERA)
LOG_LEVELS = ("auto", "debug", "info", "warning", "error", "off")


def require_known(given: Collection[str], known: Collection[str]) -> None:
    """Raise :class:`ConfigError` for an option that there is not, with the nearest one."""
    for name in given:
        if name not in known:
            raise ConfigError(f"there is no databus option {name!r}", hint=nearest_hint(name, known))


def converted(name: str, value: Any) -> Any:
    """The ``value`` of an option in its own type. Raises :class:`ConfigError`: what it should be."""
    try:
        return _CONVERT[name](value)
    except (TypeError, ValueError) as fault:
        raise ConfigError(f"databus {name} {fault}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"has to be text, not {_kind(value)}")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"has to be a whole number, not {_kind(value)}")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise TypeError(f"has to be a number of seconds, not {_kind(value)}")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"has to be True or False, not {_kind(value)}")
    return value


def _path(value: Any) -> Path:
    if not isinstance(value, (str, Path)) or not str(value) or "\0" in str(value):
        raise TypeError(f"has to be a path, not {_kind(value)}")
    return Path(value)


def _words(value: Any) -> tuple[str, ...]:
    value = split_commas(value)
    if isinstance(value, (bytes, dict)) or not isinstance(value, Iterable):
        raise TypeError(f"has to be a list of texts, not {_kind(value)}")
    words = tuple(cast("Iterable[Any]", value))
    for word in words:
        if not isinstance(word, str) or not word:
            raise TypeError(f"has to be a list of texts, and holds {_kind(word)}")
    return words


def _patterns(value: Any) -> tuple[str, ...]:
    if not (words := _words(value)):
        raise ValueError("must not be empty: leave it out to let in all")
    return words


def _peers(value: Any) -> tuple[str, ...]:
    peers = _words(value)
    for peer in peers:
        try:
            parse_peer(peer)
        except ValueError as fault:
            raise ValueError(f"cannot be used: {fault}") from None
    return peers


def _profiles(value: Any) -> tuple[str, ...]:
    names = _words(value)
    for name in names:
        _one_of(*PROFILES)(name)
    return names


def _one_of(*choices: Any) -> Callable[[Any], Any]:
    def choice(value: Any) -> Any:
        for one in choices:
            if type(value) is type(one) and value == one:
                return one
        raise ValueError(f"is {str(value)[:100]!r}, which is none of {', '.join(map(str, choices))}")

    return choice


def _or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _kind(value: Any) -> str:
    return "an empty text" if value == "" else "None" if value is None else type(value).__name__


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "domain": _count,
    "interface": _text,
    "service": _text,
    "peers": _peers,
    "fragment_bytes": _or_none(_count),
    "lease": _seconds,
    "max_in_flight": _count,
    "max_request_bytes": _count,
    "max_result_bytes": _count,
    "state_dir": _or_none(_path),
    "transport": _text,
    "tags": _words,
    "key_file": _or_none(_path),
    "trust_file": _or_none(_path),
    "sign": _one_of("auto", True, False),
    "accept": _one_of("auto", "any", "trusted"),
    "allow_unsigned": _words,
    "events": _flag,
    "event_values": _flag,
    "log_level": _one_of(*LOG_LEVELS),
    "profiles": _profiles,
    "directory": _flag,
    "let_in_services": _or_none(_patterns),
    "let_in_functions": _or_none(_patterns),
    "let_in_tags": _or_none(_patterns),
}
