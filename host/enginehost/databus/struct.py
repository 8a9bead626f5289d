"""How types and topics of the databus are described; the tables are in ``types.py``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Kind(StrEnum):
    """The type of a member."""

    STRING = "string"
    INT32 = "int32"
    INT64 = "int64"
    BOOL = "bool"
    ENUM = "enum"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Names with the values 0, 1, 2 …, 32 bits wide on the wire."""

    name: str
    enumerators: tuple[str, ...]

    def value(self, name: str) -> int:
        """What stands for ``name`` on the wire."""
        return self.enumerators.index(name)


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a struct. ``of`` is the enumeration, or the struct, that a member of such a kind is."""

    name: str
    kind: Kind
    bound: int = 0
    key: bool = False
    of: Enumeration | Struct | None = None


@dataclass(frozen=True, slots=True)
class Struct:
    """One type; topics that carry it have its name unless ``types.TOPICS`` says otherwise."""

    name: str
    members: tuple[Member, ...]

    def bound(self, member: str) -> int:
        """The bound of a string member, in bytes."""
        return next(m.bound for m in self.members if m.name == member)

    @property
    def keyed(self) -> bool:
        """Whether instances are told apart; it changes the kind of endpoint, so both ends must agree."""
        return any(member.key for member in self.members)

    @property
    def nested(self) -> tuple[Struct, ...]:
        """The structs that are members of this one."""
        return tuple(member.of for member in self.members if isinstance(member.of, Struct))

    @property
    def enumerations(self) -> tuple[Enumeration, ...]:
        """The enumerations of its members, each once."""
        found = (member.of for member in self.members if isinstance(member.of, Enumeration))
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Profile:
    """Quality of service; both ends are reliable.

    ``durable``: transient local, so that who comes late has what went before. ``depth``: samples kept per
    instance, 0 for all. ``lease``: seconds of automatic liveliness, 0 for the default, which is no limit;
    what a writer offers must not be longer than what a reader asks for.
    """

    name: str
    durable: bool
    depth: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. What stands in ``<>`` in a name is for the names and ids of those concerned."""

    name: str
    struct: Struct
    eras: tuple[int, ...]
    profile: Profile


def text(name: str, bound: int = 0) -> Member:
    """A string member."""
    return Member(name, Kind.STRING, bound)


def key(name: str, bound: int = 0) -> Member:
    """A string member by which instances are told apart."""
    return replace(text(name, bound), key=True)


def int32(name: str) -> Member:
    """A 32-bit member."""
    return Member(name, Kind.INT32)


def int64(name: str) -> Member:
    """A 64-bit member; times are milliseconds since 1970."""
    return Member(name, Kind.INT64)


def truth(name: str) -> Member:
    """A member that is true or false."""
    return Member(name, Kind.BOOL)


def one_of(name: str, enumeration: Enumeration) -> Member:
    """A member that is one of the enumeration's names."""
    return Member(name, Kind.ENUM, of=enumeration)


def nested(name: str, struct: Struct) -> Member:
    """A member that is a struct itself."""
    return Member(name, Kind.STRUCT, of=struct)
