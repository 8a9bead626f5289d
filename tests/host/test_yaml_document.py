from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from enginehost.errors import ConfigError
from enginehost.yaml_document import MAX_BYTES, parse_document, read_document

YAML_LIKE = st.text(alphabet=" \n\t:-[]{}&*!|>'\"#%@`,?abc019.~<=_e+", max_size=80)


def test_values_keep_their_places():
    document = parse_document("http:\n  docs: off\nrules:\n  - name: a\n  - {name: b}\n", "f")
    assert document.value == {"http": {"docs": False}, "rules": [{"name": "a"}, {"name": "b"}]}
    assert document.places["http", "docs"] == ("f", 2, 3)
    assert document.places["rules", 1, "name"] == ("f", 5, 6)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\na: 2\n", 2, "twice"),
        ("a: [1, 2\n", 2, "not YAML"),
        ("1: a\n", 1, "text"),
        ("? [a]\n: b\n", 1, "text"),
        ("x: !!python/object:os.system {}\n", 1, "tag"),
        ("x: !!set {a}\n", 1, "tag"),
        ("x: !!int abc\n", 1, "cannot be read"),
        ("x: !!binary '*'\n", 1, "tag"),
        ("a: 1\n---\nb: 2\n", 2, "not YAML"),
        ("a: *b\n", 1, "not YAML"),
        ("a: &a\n  b: *a\n", 1, "nested"),
        ("a: b\nc: \x07\n", 2, "character"),
    ],
)
def test_a_mistake_is_reported_where_it_is(text: str, line: int, message: str):
    with pytest.raises(ConfigError, match=message) as caught:
        parse_document(text, "f")
    assert (caught.value.path, caught.value.line) == ("f", line)


def test_deep_nesting_and_swelling_aliases_are_refused():
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
    )
    for text in ("[" * 5000, "- " * 5000, "{a: " * 500 + "}" * 500, bomb):
        with pytest.raises(ConfigError):
            parse_document(text)


def test_dates_stay_text_and_an_empty_document_is_none():
    assert parse_document("a: 2026-01-32\nb: 2026-01-02\n").value == {"a": "2026-01-32", "b": "2026-01-02"}
    assert parse_document("# nothing\n").value is None


@given(st.text(max_size=60) | YAML_LIKE)
@example("a: 1e999999\nb: 0x\n")
@example("=: 1\n<<: 2\n")
@example("a: !!float x")
@example("a: !!null x")
@example("a: !!bool x")
@example("a: !!omap [a]")
@example("\ud800")
def test_no_text_breaks_the_reader(text: str):
    with suppress(ConfigError):
        parse_document(text)


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"a: \xe9\n", b"x" * (MAX_BYTES + 1)])
def test_bytes_that_are_no_text_are_refused(data: bytes, tmp_path: Path):
    file = tmp_path / "f.yaml"
    file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_document(file)
    assert caught.value.path == str(file)


def test_a_file_that_cannot_be_read_is_refused_without_its_path_in_the_message(tmp_path: Path):
    for path in (tmp_path / "missing.yaml", tmp_path, Path("a\0b")):
        with pytest.raises(ConfigError) as caught:
            read_document(path)
        assert str(path) not in caught.value.message
