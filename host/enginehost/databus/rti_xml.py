"""Types of the databus as the XML that RTI Connext loads (``QosProvider``, or an application made of XML)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from enginehost.databus.struct import Enumeration, Kind, Member, Struct


def as_rti_xml(structs: Sequence[Struct]) -> str:
    """These types, each of which comes after those that it holds, with the enumerations they need."""
    enumerations = dict.fromkeys(one for struct in structs for one in struct.enumerations)
    types = [*map(_enumeration, enumerations), *map(_struct, structs)]
    return "\n".join(
        ['<?xml version="1.0" encoding="UTF-8"?>', "<dds>", "<types>", *types, "</types>", "</dds>"]
    )


def _enumeration(enumeration: Enumeration) -> str:
    names = (
        f'    <enumerator name="{name}" value="{value}"/>'
        for value, name in enumerate(enumeration.enumerators)
    )
    return _element("enum", enumeration.name, names)


def _struct(struct: Struct) -> str:
    return _element("struct", struct.name, map(_member, struct.members))


def _element(kind: str, name: str, inner: Iterable[str]) -> str:
    start = f'  <{kind} name="{name}" extensibility="extensible">'
    return "\n".join([start, *inner, f"  </{kind}>"])


def _member(member: Member) -> str:
    key = ' key="true"' if member.key else ""
    return f'    <member name="{member.name}" {_type(member)}{key}/>'


def _type(member: Member) -> str:
    if member.of is not None:
        return f'type="nonBasic" nonBasicTypeName="{member.of.name}"'
    if member.kind is Kind.STRING:
        return f'type="string" stringMaxLength="{member.bound or -1}"'
    return f'type="{_WORDS[member.kind]}"'


_WORDS = {Kind.INT32: "int32", Kind.INT64: "int64", Kind.BOOL: "boolean"}
