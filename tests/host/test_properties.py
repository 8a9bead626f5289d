"""The parser of property files is exactly Java's."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from enginehost.properties import PropertiesError, load, parse, scan

JavaLoad = Callable[[str], dict[str, str] | None]


@pytest.fixture(scope="session")
def java_load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaLoad]:
    """What the JVM makes of a document; ``None`` where it refuses it."""
    javac, java = shutil.which("javac"), shutil.which("java")
    if not javac or not java:
        pytest.skip("no JDK (javac, java) on the path")
    classes = tmp_path_factory.mktemp("java")
    source = Path(__file__).parent / "java" / "LoadProperties.java"
    subprocess.run([javac, "-d", str(classes), str(source)], check=True, timeout=60)
    command = [java, "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", str(classes), "LoadProperties"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield lambda text: _ask(process, text)
        assert process.stdin
        process.stdin.close()
        process.wait(timeout=30)


def _ask(process: subprocess.Popen[bytes], text: str) -> dict[str, str] | None:
    stdin, stdout = process.stdin, process.stdout
    assert stdin
    assert stdout
    data = text.encode("utf-16-be", "surrogatepass")
    stdin.write(struct.pack(">i", len(data)) + data)
    stdin.flush()

    def read_int() -> int:
        return int(struct.unpack(">i", stdout.read(4))[0])

    def read_text() -> str:
        return stdout.read(read_int()).decode("utf-16-be", "surrogatepass")

    count = read_int()
    return None if count < 0 else {read_text(): read_text() for _ in range(count)}


PIECES = st.sampled_from(
    [
        *("=", ":", " ", "\t", "\f", "\n", "\r", "\r\n", "\\", "\\\\", "\\\n", "\\\r\n", "\\\r", "#", "!"),
        *("\\u", "\\u00e9", "\\uD83D", "\\uDE00", "\\u12G4", "\\t", "\\n", "\\=", "\\:", "\\ ", "\\#", "\\x"),
        *("a", "KEY", "value", "é", "😀", "\ud83d", "\ude00", "\x00", "\x0b", "\x1c", "\x85", "\u2028"),
        *('{"a":"x\\"y"}', "C:\\temp", "u", "0041"),
    ]
)
DOCUMENTS = st.one_of(
    st.lists(PIECES, max_size=24).map("".join),
    st.text(st.characters(), max_size=40),
    st.text("=: \t\f\r\n\\#!ua0", max_size=30),
)
EDGES = [
    "\\",
    "\\\n",
    "\\\r\n",
    "\\\r",
    "\\\n ",
    "\\\n#c\na=b",
    "\\\n\na=b",
    "a\\\n",
    "a\\\n\n b",
    "\\\n\\",
    "=",
    "\\\\",
    "\ud83d\\\n\ude00",
]


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=DOCUMENTS)
def test_every_document_reads_as_the_jvm_reads_it(java_load: JavaLoad, document: str) -> None:
    expected = java_load(document)
    if expected is None:
        with pytest.raises(PropertiesError):
            parse(document)
    else:
        assert load(document) == expected


@pytest.mark.parametrize("document", EDGES)
def test_backslashes_at_the_edges_read_as_the_jvm_reads_them(java_load: JavaLoad, document: str) -> None:
    assert load(document) == java_load(document)


def test_long_documents_read_as_the_jvm_reads_them(java_load: JavaLoad) -> None:
    # Java's reader works in blocks of 8192 characters
    document = "".join(f"KEY{n}\t= value \\\r\n   continued {n} \\u00e9\r\n# c \\\r\n" for n in range(2000))
    assert load(document) == java_load(document)


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("A = 1", "A", "1"),
        ("B:2", "B", "2"),
        ("C 3", "C", "3"),
        ("D\t\t4", "D", "4"),
        ("D\f4", "D", "4"),
        ("U==v", "U", "=v"),
        ("V:=w", "V", "=w"),
        ("A = 1 ", "A", "1 "),
        ("E", "E", ""),
        ("S=v # x", "S", "v # x"),
        ("Y=line\\\n  cont", "Y", "linecont"),
        ("Y=line\\\r\n  cont", "Y", "linecont"),
        ("#c \\\nZ=1", "Z", "1"),
        ("P\\:Q=r", "P:Q", "r"),
        ("C=C:\\temp\\new", "C", "C:\temp\new"),
        ('J={"a":"x\\"y"}', "J", '{"a":"x"y"}'),
        ("X=\\", "X", ""),
        ("S=\\ud83d\\ude00", "S", "😀"),
        ("W=a\\\\", "W", "a\\"),
    ],
)
def test_each_rule_of_java(line: str, key: str, value: str) -> None:
    assert load(line) == {key: value}


def test_the_last_of_equal_keys_counts_even_when_blank() -> None:
    assert load("K=1\nK=") == {"K": ""}
    assert [entry.value for entry in parse("K=1\nK=")] == ["1", ""]


@pytest.mark.parametrize(("text", "place"), [("A=1\nP = C:\\users", (2, 7)), ("\\u12=1", (1, 1))])
def test_a_malformed_escape_is_an_error_with_its_place(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(PropertiesError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == place


def test_places_are_those_in_the_file() -> None:
    first, second = parse("# c\r\n  A = 1\r\n\tLONG : one\\\r\n   two\\u0041three")
    assert (first.line, first.column, first.value_line, first.value_column) == (2, 3, 2, 7)
    assert (second.line, second.column, second.value_line, second.value_column) == (3, 2, 3, 9)
    assert second.value == "onetwoAthree"
    assert second.locate(second.value.index("two")) == (4, 4)
    assert second.locate(second.value.index("three")) == (4, 13)


@given(st.text(st.characters(), max_size=60))
@example("\\" * 1001)
def test_no_text_crashes_the_parser_and_places_lie_in_it(text: str) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    entries, malformed = scan(text)
    for entry in entries:
        for line, column in ((entry.line, entry.column), entry.locate(0), entry.locate(len(entry.value))):
            assert 1 <= line <= len(lines)
            assert 1 <= column <= len(lines[line - 1]) + 2
    assert all(lines[fault.line - 1] for fault in malformed)
