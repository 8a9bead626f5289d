"""No archive, whoever made it, writes outside the folder into which it is unpacked."""

from __future__ import annotations

import stat
import tempfile
import unicodedata
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from enginehost.cli.semoss.archive_names import BadArchive, parts_of
from enginehost.cli.semoss.archives import _LEFT_OUT, Limits, unpack

from .files import NEW_LAYOUT, Raw, export, raw_archive, tree

UTF_8 = 0x800


def unpacked(archive: Path, limits: Limits | None = None) -> dict[str, str]:
    into = archive.parent / "into"
    into.mkdir()
    unpack(archive, into, limits or Limits())
    return tree(into)


def refusal(tmp_path: Path, *entries: Raw, limits: Limits | None = None) -> BadArchive:
    """The error; that nothing of a refused archive was written, where its directory tells."""
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(BadArchive) as raised:
        unpack(raw_archive(tmp_path / "bad.zip", entries), into, limits or Limits())
    assert raised.value.detail["hint"]
    assert {path.name for path in tmp_path.iterdir()} == {"into", "bad.zip"}
    return raised.value


def test_an_export_is_unpacked_as_it_is(tmp_path: Path) -> None:
    assert unpacked(export(tmp_path / "export.zip", NEW_LAYOUT)) == NEW_LAYOUT


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (b"../evil.smss", "leads out of"),
        (b"a/../../evil.smss", "leads out of"),
        (b"a/b/..", "leads out of"),
        (b"..\\evil.smss", "leads out of"),
        (b"a\\..\\..\\evil", "leads out of"),
        (b"/etc/evil", "is an absolute path"),
        (b"\\\\server\\share\\evil", "is an absolute path"),
        (b"C:\\evil", "drive letter"),
        (b"c:evil", "drive letter"),
        (b"a\0b", "characters that no file name has"),
        (b"a\x1b[2Jb", "characters that no file name has"),
        (b"a\nb", "characters that no file name has"),
        (b"", "is empty"),
        (b"d/" * 40 + b"f", "folders deep"),
        (b"n" * 300, "more than 255 bytes"),
    ],
)
def test_a_name_that_leads_elsewhere_refuses_the_archive(tmp_path: Path, name: bytes, why: str) -> None:
    error = refusal(tmp_path, Raw(b"fine.txt"), Raw(name))
    assert why in error.message
    assert not any((tmp_path / "into").iterdir())


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (stat.S_IFLNK, "a link"),
        (stat.S_IFIFO, "a pipe"),
        (stat.S_IFCHR, "a device"),
        (stat.S_IFSOCK, "a socket"),
    ],
)
def test_links_and_devices_refuse_the_archive(tmp_path: Path, kind: int, what: str) -> None:
    error = refusal(tmp_path, Raw(b"link", b"/etc", mode=kind | 0o777), Raw(b"link/passwd"))
    assert what in error.message
    assert not any((tmp_path / "into").iterdir())


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (b"a.py", b"a.py", "twice"),
        (b"a.py", b"./a.py", "twice"),
        (b"x/a.py", b"x\\a.py", "twice"),
        (b"a.py", b"A.PY", "case or accents only"),
        (b"Dir/a", b"dir/b", "case or accents only"),
        ("stra\u00dfe".encode(), b"STRASSE", "case or accents only"),
        ("\u00e9.py".encode(), "e\u0301.py".encode(), "case or accents only"),
        (b"a", b"a/b", "a file and a folder"),
        (b"a/b", b"a", "a file and a folder"),
    ],
)
def test_names_that_meet_in_one_file_refuse_the_archive(
    tmp_path: Path, first: bytes, second: bytes, why: str
) -> None:
    assert why in refusal(tmp_path, Raw(first, flags=UTF_8), Raw(second, flags=UTF_8)).message
    assert not any((tmp_path / "into").iterdir())


def test_a_folder_may_be_listed_or_not(tmp_path: Path) -> None:
    entries = (Raw(b"a/", b""), Raw(b"a/", b""), Raw(b"a/b.txt"), Raw(b"c\\", b""), Raw(b"d/e/f.txt"))
    assert unpacked(raw_archive(tmp_path / "a.zip", entries)) == {"a/b.txt": "x", "d/e/f.txt": "x"}
    assert (tmp_path / "into" / "c").is_dir()


@pytest.mark.parametrize("flags", [0x1, 0x40, 0x2001])
def test_an_encrypted_archive_is_refused(tmp_path: Path, flags: int) -> None:
    assert "is encrypted" in refusal(tmp_path, Raw(b"a", flags=flags)).message


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 9, 93])
def test_a_packing_that_needs_much_memory_or_is_unknown_is_refused(tmp_path: Path, method: int) -> None:
    assert "is packed in a way" in refusal(tmp_path, Raw(b"a", method=method)).message


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    error = refusal(tmp_path, Raw(b"zeros", bytes(4 << 20)))
    assert "200 times its size" in error.message
    assert not any((tmp_path / "into").iterdir())


def test_small_files_may_be_packed_tightly(tmp_path: Path) -> None:
    assert len(unpacked(raw_archive(tmp_path / "a.zip", [Raw(b"blank", b" " * 500_000)]))["blank"]) == 500_000


def test_an_archive_of_too_many_entries_or_bytes_is_refused(tmp_path: Path) -> None:
    several = [Raw(b"%d" % number, b"abc") for number in range(5)]
    for limits, why in (
        (Limits(entries=4), "5 entries"),
        (Limits(total=14), "more than 14 bytes"),
        (Limits(entry=2), "'0' of more than 2 bytes"),
    ):
        case = tmp_path / str(limits.entries + limits.total + limits.entry)
        case.mkdir()
        assert why in refusal(case, *several, limits=limits).message


@pytest.mark.parametrize("told", [1, 100_000])
def test_a_size_that_is_a_lie_refuses_the_archive(tmp_path: Path, told: int) -> None:
    refusal(tmp_path, Raw(b"a", b"0123456789" * 1000, told=told))
    written = tmp_path / "into" / "a"
    assert not written.exists() or written.stat().st_size <= told


def test_many_entries_that_share_their_bytes_are_counted_as_what_they_become(tmp_path: Path) -> None:
    archive = raw_archive(tmp_path / "a.zip", [Raw(b"%d" % one, b"a" * 1000) for one in range(100)])
    with pytest.raises(BadArchive, match="more than 50000 bytes"):
        unpack(archive, tmp_path, Limits(total=50_000))


def test_a_directory_that_claims_to_be_huge_is_not_read_into_memory(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    size = 64 << 20
    with archive.open("wb") as file:
        file.truncate(size)  # a hole on the disk
        file.seek(size)
        file.write(b"PK\5\6" + bytes(4) + b"\xff\xff\xff\xff" + size.to_bytes(4, "little") + bytes(6))
    with pytest.raises(BadArchive, match="too large"):
        unpack(archive, tmp_path)


@pytest.mark.parametrize("data", [b"", b"PK", b"no archive at all", b"PK\5\6" + bytes(18) + b"trailing"])
def test_what_is_no_archive_is_told(tmp_path: Path, data: bytes) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(data)
    if data.startswith(b"PK\5\6"):
        unpack(archive, tmp_path)  # an empty archive with something behind it
    else:
        with pytest.raises(BadArchive, match=r"a\.zip is no ZIP archive, or is damaged"):
            unpack(archive, tmp_path)


def test_a_truncated_or_changed_entry_is_told(tmp_path: Path) -> None:
    good = export(tmp_path / "a.zip", NEW_LAYOUT).read_bytes()
    spoilt = bytearray(good)
    spoilt[60:90] = bytes(30)
    (tmp_path / "b.zip").write_bytes(spoilt)
    with pytest.raises(BadArchive, match="damaged"):
        unpacked(tmp_path / "b.zip")


@pytest.mark.parametrize(
    ("raw", "flags", "name"),
    [
        ("Größe.py".encode(), UTF_8, "Größe.py"),
        ("Größe.py".encode(), 0, "Größe.py"),  # UTF-8 that does not say so
        ("Größe.py".encode("cp437"), 0, "Größe.py"),
        ("日本.py".encode(), 0, "日本.py"),
    ],
)
def test_names_are_read_as_their_author_meant_them(tmp_path: Path, raw: bytes, flags: int, name: str) -> None:
    assert unpacked(raw_archive(tmp_path / "a.zip", [Raw(raw, flags=flags)])) == {name: "x"}


def test_a_name_that_is_not_the_utf_8_it_says_is_refused(tmp_path: Path) -> None:
    refusal(tmp_path, Raw(b"Gr\xf6\xdfe.py", flags=UTF_8))


def test_permissions_of_the_archive_do_not_count(tmp_path: Path) -> None:
    entries = [Raw(b"s", mode=stat.S_IFREG | 0o6777), Raw(b"d/", b"", mode=stat.S_IFDIR), Raw(b"d/r")]
    unpacked(raw_archive(tmp_path / "a.zip", entries))
    plain = tmp_path / "plain"
    plain.write_text("")
    for name in ("s", "d/r"):
        assert (tmp_path / "into" / name).stat().st_mode == plain.stat().st_mode
    assert (tmp_path / "into" / "d").stat().st_mode & 0o700 == 0o700


def test_what_desktops_and_version_control_add_is_left_out(tmp_path: Path) -> None:
    names = (
        b"__MACOSX/._a",
        b".DS_Store",
        b"E__1/.git/hooks/pre-commit",
        b"E__1/__pycache__/a.pyc",
        b"E__1/a.py",
    )
    assert unpacked(raw_archive(tmp_path / "a.zip", map(Raw, names))) == {"E__1/a.py": "x"}


WORDS = (
    "..",
    ".",
    "",
    "a",
    "A",
    "C:",
    "/",
    "\\",
    "\0",
    "x" * 260,
    "\u202e",
    "é",
    "e\u0301",
    "~",
    "con",
    " ",
    "\n",
)
NAMES = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=6).map("/".join),
    st.lists(st.sampled_from(WORDS), max_size=6).map("\\".join),
    st.text(max_size=30),
).map(lambda text: text.encode("utf-8", "replace")) | st.binary(max_size=30)


@given(
    st.lists(
        st.tuples(NAMES, st.sampled_from((0, UTF_8)), st.sampled_from((0, 0o100644, 0o120777))), max_size=6
    )
)
@settings(max_examples=150, deadline=None)
def test_whatever_the_names_nothing_is_written_outside(entries: list[tuple[bytes, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        into = root / "deep" / "down" / "into"
        into.mkdir(parents=True)
        raws = [Raw(name, flags=flags, mode=mode) for name, flags, mode in entries]
        archive = raw_archive(root / "a.zip", raws)
        try:
            unpack(archive, into)
        except BadArchive:
            assert not any(into.iterdir()), "a bad name is found before anything is written"
        outside = [path for path in root.rglob("*") if into not in (path, *path.parents)]
        assert {path.name for path in outside} == {"a.zip", "deep", "down"}
        assert not any(path.is_symlink() for path in into.rglob("*"))


@given(NAMES)
@settings(max_examples=200, deadline=None)
def test_a_name_gives_parts_that_stay_below_or_is_refused(raw: bytes) -> None:
    try:
        parts = parts_of(raw.decode("utf-8", "surrogateescape"))
    except BadArchive:
        return
    assert all(part not in ("", ".", "..") and "/" not in part and "\\" not in part for part in parts)
    assert Path("/top").joinpath(*parts).is_relative_to("/top")


@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_a_damaged_archive_is_unpacked_or_refused_and_nothing_else(changes: list[tuple[float, int]]) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        into = root / "into"
        into.mkdir()
        data = bytearray(export(root / "a.zip", NEW_LAYOUT).read_bytes())
        for place, value in changes:
            data[int(place * len(data))] = value
        (root / "a.zip").write_bytes(data)
        with suppress(BadArchive):
            unpack(root / "a.zip", into)
        assert {path.name for path in root.iterdir()} == {"a.zip", "into"}


PLAIN = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="/\\:."), min_size=1, max_size=20
).filter(lambda name: name not in _LEFT_OUT)


@given(st.dictionaries(st.tuples(PLAIN, PLAIN), st.text(max_size=50), max_size=5))
@settings(max_examples=60, deadline=None)
def test_what_is_packed_is_what_is_unpacked(files: dict[tuple[str, str], str]) -> None:
    folded = {unicodedata.normalize("NFC", part.casefold()) for name in files for part in name}
    assume(len(folded) == len({part for name in files for part in name}))
    with tempfile.TemporaryDirectory() as base:
        texts = {f"{folder}/{name}": text.replace("\r", "") for (folder, name), text in files.items()}
        assert unpacked(export(Path(base) / "a.zip", texts)) == texts
