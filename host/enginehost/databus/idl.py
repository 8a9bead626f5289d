"""Types of the databus as OMG IDL 4.2.

Enumerators live in the scope around their enumeration there, and Genesis uses some names in several: so
each enumeration stands in a module of its own. Structs keep their bare names, by which they are registered.
A leading underscore makes a name of a word that IDL keeps for itself, and is no part of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from enginehost.databus.struct import Enumeration, Kind, Member, Struct
from enginehost.databus.types import TOPICS

_WORDS = {
    Kind.INT32: "long",
    Kind.INT64: "long long",
    Kind.BOOL: "boolean",
}
_KEYWORDS = frozenset({"interface"})
"""Of those that IDL keeps for itself, in any case, the ones that Genesis uses as names."""


def as_idl(structs: Sequence[Struct]) -> str:
    """These types, each of which comes after those that it holds, with the enumerations they need."""
    enumerations = dict.fromkeys(one for struct in structs for one in struct.enumerations)
    return "\n\n".join([*map(_enumeration, enumerations), *map(_struct, structs)])


def _enumeration(enumeration: Enumeration) -> str:
    names = ",\n".join(f"    {_name(one)}" for one in enumeration.enumerators)
    return (
        f"module {_module(enumeration)} {{\n  @appendable\n  enum {enumeration.name} {{\n{names}\n  }};\n}};"
    )


def _struct(struct: Struct) -> str:
    topics = (f"// topic {topic.name}" for topic in TOPICS.values() if topic.struct == struct)
    return "\n".join([*topics, "@appendable", f"struct {struct.name} {{", *_members(struct.members), "};"])


def _members(members: Iterable[Member]) -> Iterable[str]:
    for member in members:
        yield f"  {'@key ' if member.key else ''}{_type(member)} {member.name};"


def _type(member: Member) -> str:
    if isinstance(member.of, Enumeration):
        return f"{_module(member.of)}::{member.of.name}"
    if isinstance(member.of, Struct):
        return member.of.name
    if member.kind is Kind.STRING:
        return f"string<{member.bound}>" if member.bound else "string"
    return _WORDS[member.kind]


def _module(enumeration: Enumeration) -> str:
    return f"{enumeration.name}Enum"


def _name(word: str) -> str:
    return f"_{word}" if word.lower() in _KEYWORDS else word
