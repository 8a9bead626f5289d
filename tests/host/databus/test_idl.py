"""The types as other DDS programs take them: OMG IDL, and RTI's XML."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from enginehost.databus.idl import as_idl
from enginehost.databus.rti_xml import as_rti_xml
from enginehost.databus.struct import Enumeration, Kind, Member, Struct, int64, key, one_of, text
from enginehost.databus.types import FUNCTION_REQUEST, types_of

EXAMPLE_KIND = Enumeration("ExampleKind", ("INTERFACE", "AGENT"))
EXAMPLE = Struct(
    "Example",
    (
        key("id", 128),
        one_of("kind", Enumeration("ExampleKind", ("INTERFACE", "AGENT"))),
        int64("at"),
        text("more"),
    ),
)


def printed(*options: str) -> str:
    words = [sys.executable, "-m", "enginehost", "databus", "idl", *options]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


def some_value(member: Member) -> Any:
    return {Kind.STRING: f"é {member.name}", Kind.BOOL: True}.get(member.kind, 1)


def cyclone_sample(struct: Struct) -> Any:
    from enginehost.databus.cyclone.wire import idl_type

    kind: Any = idl_type(struct)
    nested = (
        cyclone_sample(one.of) if isinstance(one.of, Struct) else some_value(one) for one in struct.members
    )
    return kind(*nested)


def test_idl_has_keys_bounds_and_a_module_for_each_enumeration() -> None:
    assert as_idl([EXAMPLE]) == (
        "module ExampleKindEnum {\n"
        "  @appendable\n"
        "  enum ExampleKind {\n"
        "    _INTERFACE,\n"  # a word that IDL keeps for itself; the name is INTERFACE
        "    AGENT\n"
        "  };\n"
        "};\n"
        "\n"
        "@appendable\n"
        "struct Example {\n"
        "  @key string<128> id;\n"
        "  ExampleKindEnum::ExampleKind kind;\n"
        "  long long at;\n"
        "  string more;\n"
        "};"
    )


def test_xml_says_of_each_type_what_the_table_says() -> None:
    types = ET.fromstring(as_rti_xml(types_of())).find("types")
    assert types is not None
    assert {one.get("extensibility") for one in types} == {"extensible"}
    found = {one.get("name"): one for one in types}
    assert [one.get("name") for one in types if one.tag == "struct"] == [one.name for one in types_of()]
    for struct in types_of():
        members = found[struct.name].findall("member")
        assert [one.get("name") for one in members] == [one.name for one in struct.members]
        for member, element in zip(struct.members, members, strict=True):
            assert (element.get("key") == "true") is member.key
            bound = str(member.bound or -1) if member.kind is Kind.STRING else None
            assert element.get("stringMaxLength") == bound
            assert element.get("nonBasicTypeName") == (member.of and member.of.name)
        for enumeration in struct.enumerations:
            names = [one.get("name") for one in found[enumeration.name]]
            assert names == list(enumeration.enumerators)


def test_the_command_prints_the_types_of_one_era_or_of_both() -> None:
    def names(text: str) -> list[str]:
        return re.findall(r"struct (?:name=\")?(\w+)", text)

    assert names(printed()) == [one.name for one in types_of()]
    assert names(printed("--era", "1")) == [one.name for one in types_of(1)]
    assert names(printed("--era", "2", "--format", "xml")) == [one.name for one in types_of(2)]


def compiled_hashes(code: str) -> dict[str, bytes]:
    """The hashes of types in what Cyclone's compiler makes of IDL."""
    written = re.findall(r"#define TYPE_INFO_CDR_(\w+) \(unsigned char \[\]\)\{(.*?)\n\}", code, re.DOTALL)
    return {name: _hash(bytes.fromhex("".join(re.findall("0x(..)", data)))) for name, data in written}


@pytest.fixture
def fresh_types() -> Iterator[None]:
    """The library keeps what it has made of a class."""
    pytest.importorskip("cyclonedds")
    from enginehost.databus.cyclone import wire

    def forget() -> None:
        wire.idl_type.cache_clear()
        wire._enumeration.cache_clear()

    forget()
    yield
    forget()


def own_hash(struct: Struct, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The hash of the host's own type."""
    from cyclonedds.idl._support import Endianness
    from cyclonedds.idl._xt_builder import XTBuilder

    from enginehost.databus.cyclone.wire import idl_type

    kind: Any = idl_type(struct)
    for member in struct.members:
        if isinstance(
            member.of, Enumeration
        ):  # the Python library marks the first name, the compiler does not
            enumeration = kind.__annotations__[member.name]
            monkeypatch.setattr(enumeration, "__idl_enum_default_value__", None)
    information: Any = XTBuilder.process_type(kind)[0]
    return _hash(information.serialize(endianness=Endianness.Little, use_version_2=True)[4:])


def _hash(type_information: bytes) -> bytes:
    """That of the minimal form, which leaves out what does not matter, such as the names of types."""
    return type_information[20:34]


@pytest.mark.interop
@pytest.mark.skipif(not shutil.which("idlc"), reason="Cyclone's idlc is not installed (cyclonedds-tools)")
@pytest.mark.usefixtures("fresh_types")
def test_a_compiler_makes_of_the_idl_the_types_that_the_host_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same hash means the same names, order, kinds, bounds, keys and extensibility."""
    # what is nested is final in the host, for Cyclone's sake
    text = printed().replace("@appendable\nstruct FunctionCall", "@final\nstruct FunctionCall")
    (tmp_path / "types.idl").write_text(text)
    done = subprocess.run(
        ["idlc", "types.idl"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    compiled = compiled_hashes((tmp_path / "types.c").read_text())
    assert compiled.keys() == {one.name for one in types_of()}
    for struct in types_of():
        if struct not in FUNCTION_REQUEST.nested:
            assert own_hash(struct, monkeypatch) == compiled[struct.name], struct.name


def assigned(sample: Any, struct: Struct, prefix: str = "") -> None:
    """Fill RTI's sample with :func:`some_value` of each member."""
    for member in struct.members:
        if isinstance(member.of, Struct):
            assigned(sample, member.of, f"{member.name}.")
        else:
            sample[prefix + member.name] = some_value(member)


def rti_members(kind: Any) -> Iterator[tuple[str, int, bool]]:
    return ((one.name, one.id, one.is_key) for one in kind.members())


@pytest.mark.interop
def test_connext_loads_the_xml_and_writes_the_same_bytes(tmp_path: Path) -> None:
    """No licence is needed for this much."""
    dds: Any = pytest.importorskip("rti.connextdds", reason="rti.connext is not installed")
    pytest.importorskip("cyclonedds")
    from enginehost.databus.cyclone.wire import serialized

    path = tmp_path / "types.xml"
    path.write_text(printed("--format", "xml"))
    provider = dds.QosProvider(str(path))
    for struct in types_of():
        kind = provider.type(struct.name)
        expected = [(one.name, number, one.key) for number, one in enumerate(struct.members)]
        assert list(rti_members(kind)) == expected
        assert kind.extensibility_kind == dds.ExtensibilityKind.EXTENSIBLE
        sample = dds.DynamicData(kind)
        assigned(sample, struct)
        written = bytes(bytearray(sample.to_cdr_buffer()))
        assert written.ljust((len(written) + 3) & ~3, b"\0") == serialized(cyclone_sample(struct)), (
            struct.name
        )
        for member in struct.members:
            if member.kind is Kind.STRING:
                unbounded = dds.StringType.UNBOUNDED
                assert kind.member(member.name).type.bounds == (member.bound or unbounded)
