"""What an smss file says, and what is found in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from enginehost.config import EngineConfig, check_keys, read_config
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.errors import ConfigError
from enginehost.interpret import Declaration, Sources, interpret
from enginehost.keys import PUBLIC_KEYS
from enginehost.parameters import read_name, read_signature
from enginehost.signature import UNREAD
from enginehost.substitute import MAX_CHAIN, MAX_LENGTH

PATH = Path("folder/City Weather__1f0a.smss")
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def read(text: str, sources: Sources | None = None, path: Path = PATH) -> Declaration:
    return interpret(text.encode("utf-8", "surrogatepass"), path, sources)


def codes(declaration: Declaration) -> list[str]:
    return [found.code for found in declaration.diagnostics]


def only(declaration: Declaration) -> Diagnostic:
    assert len(declaration.diagnostics) == 1, declaration.diagnostics
    return declaration.diagnostics[0]


# bytes


def test_bytes_are_utf_8() -> None:
    declaration = read("NAME=é😀")
    assert declaration.text("NAME") == "é😀"
    assert not declaration.diagnostics


def test_bytes_that_are_not_utf_8_are_read_as_iso_8859_1_with_a_warning() -> None:
    declaration = interpret(b"A=1\r\nNAME=caf\xe9", PATH)
    assert declaration.text("NAME") == "café"
    found = only(declaration)
    assert (found.line, found.column, found.severity, found.code) == (2, 9, Severity.WARNING, "not-utf-8")


def test_a_byte_order_mark_is_dropped_with_a_warning() -> None:
    declaration = interpret(b"\xef\xbb\xbfENGINE=x", PATH)
    assert declaration.engine_id == "x"
    assert codes(declaration) == ["byte-order-mark"]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_utf_16_and_utf_32_are_errors_that_say_so(encoding: str, mark: str) -> None:
    declaration = interpret(f"{mark}ENGINE=x".encode(encoding), PATH)
    (found,) = declaration.diagnostics
    assert (found.code, found.severity) == (encoding[:6], Severity.ERROR)
    assert found.message == f"the file is {encoding[:6].upper()}"
    assert declaration.engine_id == "x"


# keys


def test_keys_are_compared_without_case() -> None:
    declaration = read("function_Name=f")
    assert declaration.text("FUNCTION_NAME") == "f"
    assert declaration.properties() == {"FUNCTION_NAME": "f"}
    assert declaration.location("FUNCTION_NAME") == (1, 1)


def test_a_duplicate_key_is_a_warning_with_both_lines() -> None:
    declaration = read("K=1\n\n  k=2")
    found = only(declaration)
    assert declaration.text("K") == "2"
    assert (found.line, found.column, found.code) == (3, 3, "duplicate-key")
    assert "line 1" in found.message
    assert "line 3" in found.message


def test_a_malformed_escape_is_an_error_with_the_hint_and_the_rest_is_read() -> None:
    declaration = read("ENGINE=x\nPYTHON_SCRIPT_PATH=C:\\users\\me.py\nFUNCTION_NAME=f")
    found = only(declaration)
    assert (found.line, found.column, found.severity) == (2, 22, Severity.ERROR)
    assert "C:/users" in found.hint
    assert declaration.text("FUNCTION_NAME") == "f"


def test_half_of_a_surrogate_pair_becomes_a_replacement_with_a_warning() -> None:
    declaration = read("NAME=a\\ud83d")
    assert declaration.text("NAME") == "a\ufffd"
    assert codes(declaration) == ["lone-surrogate"]


@pytest.mark.parametrize(
    ("text", "file", "engine_id", "alias"),
    [
        ("ENGINE=not a uuid\nENGINE_ALIAS=Nice", "x.smss", "not a uuid", "Nice"),
        ("", "Invoice Totals__5b0e.smss", "5b0e", "Invoice Totals"),
        ("", "add.smss", "add", "add"),
        ("ENGINE=  \n", "v1.add.smss", "v1.add", "v1.add"),
        ("", "odd__.smss", "odd__", "odd"),
        ("", ".smss", ".smss", ".smss"),
    ],
)
def test_id_and_alias_come_from_the_file_or_its_name(
    text: str, file: str, engine_id: str, alias: str
) -> None:
    declaration = read(text, path=Path(file))
    assert (declaration.engine_id, declaration.alias) == (engine_id, alias)


def test_both_key_families_name_the_class_and_the_display_name() -> None:
    assert read("ENGINE_TYPE=prerna.X").engine_class == "prerna.X"
    assert read("ENGINE_TYPE=prerna.X\nENGINE_CLASS = REST ").engine_class == "REST"
    assert read("NAME=n\nENGINE_DISPLAY_NAME=\n").display_name == "n"
    assert read("").display_name == "City Weather"
    assert read("").engine_class == ""


# substitution


def test_keys_defaults_and_literals_are_filled_in() -> None:
    declaration = read(
        "HOST=h.example\nURL=https://${host}:${PORT:-443}/$${x}\nCOPY=${URL}!\nD=${env:NO_SUCH:-d}",
        Sources(env=lambda name: None),
    )
    assert declaration.text("URL") == "https://h.example:443/${x}"
    assert declaration.text("COPY") == "https://h.example:443/${x}!"
    assert declaration.text("D") == "d"
    assert not declaration.diagnostics


def test_values_from_outside_are_filled_in_and_never_expanded_again() -> None:
    files = {Path("folder/token.txt"): "from ${A}\r\n"}
    sources = Sources(
        env={"E": "${A}"}.get, file=lambda path: files[path], secret=lambda name: f"secret of {name}"
    )
    declaration = read("A=1\nX=${env:E} ${file:token.txt} ${secret:db}\nY=${X}", sources)
    assert declaration.text("X") == "${A} from ${A} secret of db"
    assert declaration.text("Y") == declaration.text("X")
    assert not declaration.diagnostics
    assert declaration.is_confidential("X")
    assert declaration.is_confidential("Y")
    assert not declaration.is_confidential("A")


def test_an_unknown_key_stays_with_a_warning() -> None:
    declaration = read("A=costs ${AMOUNT}")
    assert declaration.text("A") == "costs ${AMOUNT}"
    found = only(declaration)
    assert (found.code, found.severity, found.line) == ("unknown-placeholder", Severity.WARNING, 1)
    assert "$${AMOUNT}" in found.hint


@pytest.mark.parametrize("source", ["env", "file", "secret"])
def test_an_unresolved_outside_value_is_an_error_that_names_the_key(source: str) -> None:
    def no_file(path: Path) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    declaration = read(f"A=1\nTOKEN=pre ${{{source}:thing}}", Sources(env=lambda name: None, file=no_file))
    declaration.properties()
    found = only(declaration)
    assert (found.code, found.severity, found.line) == (f"unresolved-{source}", Severity.ERROR, 2)
    assert "TOKEN" in found.message
    assert "folder" not in found.message


def test_a_failing_secret_store_is_an_error_of_the_key() -> None:
    def broken(name: str) -> str | None:
        raise ConfigError("the vault does not answer")

    declaration = read("TOKEN=${secret:a}", Sources(secret=broken))
    declaration.text("TOKEN")
    assert "vault" in only(declaration).message


def test_the_files_own_reader_takes_small_text_files_only(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("text\n\n")
    (tmp_path / "big").write_text("x" * (MAX_LENGTH + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    text = "\n".join(
        f"K{n}=${{file:{name}}}" for n, name in enumerate(["good", "big", "binary", ".", "a\\u0000b"])
    )
    declaration = read(text, path=tmp_path / "x.smss")
    assert declaration.properties()["K0"] == "text\n"
    assert codes(declaration) == ["unresolved-file"] * 4


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/self/../self/environ", "/dev/null", "/sys/kernel/x"]
)
def test_a_file_of_the_kernel_is_no_value(path: str) -> None:
    declaration = read(f"A=${{file:{path}}}")
    declaration.text("A")
    found = only(declaration)
    assert found.code == "unresolved-file"
    assert "kernel" in found.message


@pytest.mark.parametrize("key", PUBLIC_KEYS)
@pytest.mark.parametrize("value", ["${secret:s}", "${env:API_TOKEN}", "${K}", "${AUTH_PASSWORD}"])
def test_a_secret_in_a_key_that_callers_read_is_an_error(key: str, value: str) -> None:
    outside = Sources(env=lambda name: "hunter2", secret=lambda name: "hunter2")
    named = "" if key == "FUNCTION_NAME" else "FUNCTION_NAME=f\n"
    text = f"{named}K=${{secret:k}}\nAUTH_PASSWORD=hunter2\n{key}=x {value}"
    declaration = read(text, outside)
    assert not read_signature(declaration).known
    assert [found.code for found in declaration.diagnostics if found.severity is Severity.ERROR] == [
        "secret-in-public-key"
    ]
    shown = [declaration.engine_id, declaration.alias, declaration.display_name, declaration.unique_name]
    assert "hunter2" not in "".join((*shown, *map(str, declaration.diagnostics)))
    assert read_name(declaration, complete=True).name == UNREAD or key != "FUNCTION_NAME"


@pytest.mark.parametrize(
    "value",
    ["${env:AUTHOR}", "${env:MAX_TOKENS}", "${env:KEY_ID}", "${file:f}", "${secret:no:-x}", "${AUTHOR}"],
)
def test_other_values_from_outside_may_be_told(value: str) -> None:
    outside = Sources(env=lambda name: "x", file=lambda path: "x")
    declaration = read(f"AUTHOR=x\nFUNCTION_NAME=f\nFUNCTION_DESCRIPTION=by {value}", outside)
    parts = read_signature(declaration)
    assert parts.signature is not None
    assert parts.signature.description == "by x"


def test_what_a_store_overlays_is_no_secret_unless_another_key_takes_it() -> None:
    declaration = read("ENGINE=e")
    declaration.overlay({"FUNCTION_NAME": "f", "FUNCTION_DESCRIPTION": "Does.", "API_KEY": "hunter2"})
    assert read_signature(declaration).known
    declaration = read("FUNCTION_NAME=f\nFUNCTION_DESCRIPTION=by ${SOMETHING}")
    declaration.overlay({"SOMETHING": "hunter2"})
    assert not read_signature(declaration).known


def test_a_local_path_stays_out_of_what_callers_read() -> None:
    sources = Sources(base_folder=Path("/srv/base"))
    text = "P=@BaseFolder@/x\nFUNCTION_NAME=f\nFUNCTION_DESCRIPTION=reads ${P} and @BaseFolder@"
    declaration = read(text, sources)
    assert declaration.text("P") == "/srv/base/x"
    assert declaration.text("FUNCTION_DESCRIPTION") == "reads @BaseFolder@/x and @BaseFolder@"
    assert codes(declaration) == ["local-path-in-public-key"]


def test_a_cycle_is_an_error() -> None:
    declaration = read("A=${B}\nB=${C}\nC=${A}\nSELF=${SELF}")
    assert declaration.text("A") == "${B}"
    assert declaration.text("SELF") == "${SELF}"
    assert codes(declaration) == ["substitution-cycle"] * 2
    assert "A → B → C → A" in declaration.diagnostics[0].message


def test_long_chains_and_exploding_values_are_errors() -> None:
    chain = "\n".join(f"K{n}=${{K{n + 1}}}" for n in range(20_000))
    declaration = read(chain)
    declaration.text("K0")
    assert codes(declaration) == ["substitution-chain"]
    laughs = (
        "\n".join(f"K{n}={f'${{K{n + 1}}}' * 10}" for n in range(MAX_CHAIN - 2)) + f"\nK{MAX_CHAIN - 2}=ha"
    )
    declaration = read(laughs)
    declaration.text("K0")
    assert codes(declaration) == ["value-too-long"]


def test_semoss_placeholders_are_filled_in() -> None:
    declaration = read("P=@BaseFolder@/x/@ENGINE@/y", Sources(base_folder=Path("base")))
    assert declaration.text("P") == "base/x/City Weather__1f0a/y"
    assert read("P=@BaseFolder@").text("P") == "folder"


def test_a_secret_store_overlays_the_whole_map_before_anything_is_read() -> None:
    declaration = read("ENGINE=e\nFUNCTION_NAME=\nHOST=h")
    declaration.overlay({"function_name": "f", "URL": "https://${HOST}", "HEADERS": {"a": "b"}})
    assert declaration.properties() == {
        "ENGINE": "e",
        "FUNCTION_NAME": "f",
        "HOST": "h",
        "URL": "https://h",
        "HEADERS": '{"a": "b"}',
    }
    assert declaration.json("HEADERS") == {"a": "b"}
    assert declaration.is_confidential("URL")
    assert declaration.location("FUNCTION_NAME") == (2, 1)
    assert declaration.location("URL") == (0, 0)


# JSON


def test_json_that_java_broke_is_read_from_the_raw_text_with_a_warning() -> None:
    declaration = read('A=1\nJ={"a":"x\\"y", \\\n  "re":"\\\\d"}')
    assert declaration.json("J") == {"a": 'x"y', "re": "\\d"}
    found = only(declaration)
    assert (found.code, found.severity, found.line) == ("json-escapes", Severity.WARNING, 2)


def test_json_that_survives_java_is_what_java_reads() -> None:
    declaration = read(r'J={"a":"\\\"b\\\""}')
    assert declaration.json("J") == {"a": '"b"'}
    assert not declaration.diagnostics


def test_lenient_json_is_read_with_a_warning() -> None:
    declaration = read("J={name: 'it', list: [label, other,], /* c */}")
    assert declaration.json("J") == {"name": "it", "list": ["label", "other"]}
    assert codes(declaration) == ["lenient-json"]


def test_malformed_json_is_an_error_at_its_place() -> None:
    declaration = read('A=1\nJ = {"a": 1,\\\n     "b" 2}')
    assert declaration.json("J") is None
    found = only(declaration)
    assert (found.line, found.column, found.code) == (3, 10, "malformed-json")


def test_big_integers_stay_exact_and_depth_is_limited() -> None:
    big = 2**80
    assert read(f"J=[{big}]").json("J") == [big]
    declaration = read("J=" + "[" * 500 + "]" * 500)
    assert declaration.json("J") is None
    assert codes(declaration) == ["malformed-json"]


def test_a_value_in_a_json_string_cannot_break_or_inject() -> None:
    sources = Sources(secret=lambda name: '"}, "admin": {"x": "')
    declaration = read('J={"h": ["k ${secret:k}"], "n": 1}', sources)
    assert declaration.json("J") == {"h": ['k "}, "admin": {"x": "'], "n": 1}


def test_a_text_that_is_one_placeholder_stands_for_the_json() -> None:
    sources = Sources(file=lambda path: '[{"name": "a", "b": "${X}"}]\n')
    declaration = read("J=${file:p.json}\nK=${NOPE}\nL=${secret:no}", sources)
    assert declaration.json("J") == [{"name": "a", "b": "${X}"}]
    assert declaration.json("K") is None
    assert codes(declaration) == ["unknown-placeholder", "malformed-json"]
    assert declaration.json("L") is None
    assert codes(declaration)[2:] == ["unresolved-secret"]


@given(JSON_VALUES)
def test_json_written_as_java_writes_it_comes_back(value: object) -> None:
    text = json.dumps({"v": literal(value)})
    escaped = text.replace("\\", "\\\\")
    assert read(f"J={escaped}").json("J") == {"v": value}


def literal(value: object) -> object:
    """The value with ``${`` in its strings written so that it stays (member names are never filled in)."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, list):
        return [literal(item) for item in value]
    if isinstance(value, dict):
        return {name: literal(member) for name, member in value.items()}
    return value


def test_findings_are_not_repeated_when_a_value_is_read_twice() -> None:
    declaration = read("J=[a]\nT=${X}")
    for _ in range(2):
        declaration.json("J")
        declaration.properties()
    assert sorted(codes(declaration)) == ["lenient-json", "unknown-placeholder"]


# robustness

_KEYS = """FUNCTION_NAME FUNCTION_PARAMETERS FUNCTION_REQUIRED_PARAMETERS FUNCTION_BIND FUNCTION_RESULT
FUNCTION_TAGS FUNCTION_ANNOTATIONS ENGINE RATE_LIMIT TIMEOUT_SECONDS APPROVAL"""
_TEXTS = """= \\ [ ] { } " : , ${ } ${A} ${env:X} @ENGINE@ null "name" "type" "items" "required" "properties"
"$ref" "#/x" List< > 1 - {"name":"a","type":" "} 1e999 \\ud800 true /s "enum" "object" é \x00"""
FRAGMENTS = st.sampled_from([*_KEYS.split(), *_TEXTS.split(), "\n", "\ufeff"])


class SomeConfig(EngineConfig):
    function_tags: list[str] = Field(default_factory=list)
    function_bind: dict[str, int] | str = ""
    timeout_seconds: int = 0


@pytest.mark.parametrize("key", ["ENGINE", "ENGINE_ALIAS"])
def test_an_identity_that_asks_for_itself_is_what_the_files_name_says(key: str) -> None:
    declaration = interpret(f"{key} = @ENGINE@\n".encode(), Path("Shop__17.smss"))
    assert "Shop__17" in (declaration.engine_id, declaration.alias)


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=80), st.lists(FRAGMENTS, max_size=40).map(lambda p: "".join(p).encode("utf-8"))
    )
)
def test_no_bytes_crash_the_reading_of_a_file(data: bytes) -> None:
    declaration = interpret(data, PATH)
    declaration.properties()
    assert read_signature(declaration).known or declaration.has_errors
    read_config(declaration, SomeConfig)
    check_keys(declaration, SomeConfig)
    for found in declaration.diagnostics:
        assert str(found)
        json.dumps(found.to_json()).encode()
