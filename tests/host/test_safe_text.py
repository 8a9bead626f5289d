"""What a caller may read of what went wrong inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.local_paths import know_folder
from enginehost.redaction import Redactor
from enginehost.safe_text import MOST, explain, safe_text


def plain(text: str) -> str:
    return safe_text(text, lambda text: text)


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter22",
        "PASSWORD = hunter22",
        "db_password: hunter22,",
        "{'api_key': 'hunter22'}",
        '{"access_token":"hunter22"}',
        '{\\"client_secret\\":\\"hunter22\\"}',
        "passphrase: 'hunter22'",
        "my-secret-thing=hunter22;next",
        "url=x?token=hunter22&a=b",
        "Authorization: Bearer hunter22",
        "Proxy-Authorization: Basic hunter22==",
        "refused Bearer hunter22.abc.def",
        "postgres://bob:hunter22@db/x",
        "postgres://bob:hunter22@more@db/x",
        "https://hunter22@example.org/x",
        "-----\nprivate_key = hunter22",
        "a=b password=hunter22",
        "key=value,pwd=hunter22",
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str) -> None:
    found = plain(text)
    assert "hunter22" not in found
    assert "more@db" not in found
    assert "***" in found


@pytest.mark.parametrize(
    "text", ["API_KEY_VALUE takes ${secret:db-key}, which", "${secret:a b}", "x${secret:k}y"]
)
def test_the_name_of_a_secret_is_none(text: str) -> None:
    assert plain(text) == text


def test_a_placeholder_of_a_file_stays_one() -> None:
    assert plain("URL takes ${file:/etc/app/x.txt}, which") == "URL takes ${file:x.txt}, which"


def test_only_a_whole_placeholder_is_a_name() -> None:
    assert "hunter22" not in plain("${secret:hunter22") + plain("${password:hunter22}") + plain(
        "{secret:hunter22}"
    )


@pytest.mark.parametrize(
    ("text", "kept", "gone"),
    [
        ("no /usr/lib/app/x.py here", "x.py here", "/usr"),
        ("error:/usr/lib/app/x.py", "x.py", "/usr"),
        ("PATH=/usr/bin:/usr/local/bin", "bin", "/usr"),
        ("open('/etc/app/x.conf')", "x.conf", "/etc"),
        ('File "/usr/lib/python3/x.py", line 3', "line 3", "/usr"),
        ("see file:///etc/app/x.conf", "see x.conf", "/etc"),
        ("see file://localhost/home/alice/x.conf", "see x.conf", "alice"),
        ("see file:///C:/Users/alice/x.conf", "see x.conf", "alice"),
        ("see FILE://server/share/alice/x.conf now", "see x.conf now", "alice"),
        ("in /usr/lib/ and /etc/", "lib", "/usr"),
        (r"C:\Users\bob\x.txt is missing", "x.txt is missing", "bob"),
        (r"'C:\\Users\\bob\\x.txt'", "x.txt", "bob"),
        (r"C:\Program Files (x86)\bob\x.txt", "x.txt", "bob"),
        (r"\\server\share\bob\x.txt", "x.txt", "server"),
        (r"no \\host\bob\x and C:\Users\bob\y and file:///etc/z.py", "no x and y and z.py", "bob"),
        (r"no 'C:\Users\O'Bob & Co. #1\x.txt'", "no 'x.txt'", "Bob"),
        (r"copied 'C:\bob\x' to '\\host\bob\y'", "copied 'x' to 'y'", "bob"),
        (r"in 'C:\Users\alice\' and C:\Users\alice", "in 'alice' and alice", "Users"),
        (r"boom\nC:\\Users\\bob\\x", r"boom\nx", "bob"),
        ("in //home/alice/s/x.py", "in x.py", "alice"),
        ("cc -I/home/alice/include x", "include x", "alice"),
        ("--prefix=/home/alice/p", "--prefix=p", "alice"),
        ("C:/Users/alice/x is missing", "x is missing", "alice"),
        ("no ~/.ssh/id", "no id", "ssh"),
        ("no ~alice/.ssh/id", "no id", "alice"),
        (r"first\n/home/alice/x", "x", "alice"),
        ("/home/alice/my (proj)/secret/x.py: no", "x.py: no", "proj"),
        ("'/home/alice/a,b/c/d.py'", "'d.py'", "a,b"),
        ("/home/al:ice/q/w.py: boom", "w.py: boom", "ice"),
        (r'{"at":"\/home\/alice\/x"}', '{"at":"x"}', "alice"),
        ("at https://a.example/?f=/home/alice/x", "https://a.example/?f=x", "alice"),
        ("['/home/alice/x', '/home/alice/y']", "['x', 'y']", "alice"),
        ("(see /usr/lib/x.py) or a/b", "(see x.py) or a/b", "/usr"),
        ("x/srv/known/folder/a/b.py", "b.py", "known"),
        ("my/srv/known/folder: gone", "folder: gone", "known"),
    ],
)
def test_a_local_path_is_cut_to_its_last_part(text: str, kept: str, gone: str) -> None:
    know_folder(Path("/srv/known/folder"))
    found = plain(text)
    assert kept in found
    assert gone not in found


@pytest.mark.parametrize(
    "text",
    [
        "GET https://example.org/usr/lib/x failed: 404",
        "GET http://home/usr/lib/x failed: 404",
        "s3://bucket/home/x, //home.example.org/usr/x, pkg/usr/lib/x",
        "expected a/b, got b/a",
        "the pointer /name/0 is wrong",
        "no such city: Bär/lin",
        "basic understanding of tokens is missing",
        "3/4 of 1/2",
        r"the pattern \d+ does not match",
        r"the pattern \\d+ does not match \\s",
        "a file:// URL, profile: x",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


@given(text=st.text(max_size=300) | st.text(alphabet="/\\:@=a -'\"bearpswod.{}~", max_size=300))
@settings(max_examples=300, deadline=None)
def test_a_text_never_grows_beyond_its_masks(text: str) -> None:
    found = plain(text)
    assert len(found) <= len(text) + 3 * found.count("***")
    assert plain(found).count("/etc/") == 0


@pytest.mark.parametrize(
    "piece",
    ["-password", "a-", "password", "=", "'", '"', "/a", "/a ", "/usr/", " /usr/ ", "C:\\a", "\\\\a\\", "://",
     "://a:", "@", "//", "/home/", "/home/a ", "\\/", "\\/home", "~/", "C:/", "/home/(", "x://", "-I/home",
     "\\n/usr", "bearer ", "token='", "a:", "[", "api_key", " ", "\n", "token:\t"],
)  # fmt: skip
def test_no_long_text_takes_long(piece: str, grows_evenly: Any) -> None:
    def prepare(size: int) -> Callable[[], object]:
        text = piece * (size // len(piece))
        return lambda: plain(text)

    grows_evenly(prepare, 1_500, 24_000)
    assert len(plain(piece * (200_000 // len(piece)))) <= MOST + 2


def test_a_known_secret_never_shows_where_the_text_is_cut() -> None:
    redactor = Redactor()
    secret = "s3cr3t-" * 40
    redactor.add(secret)
    for before in range(2 * MOST - len(secret) - 2, 2 * MOST + 2, 7):
        found = safe_text("/usr/lib/x " * 100 + "x" * (before - 1100) + secret, redactor)
        assert "s3cr" not in found


def test_an_exception_without_a_text_that_can_be_told_is_told_by_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even this")

    assert explain(Mute(), str) == "Mute"
    assert explain(ValueError(), str) == "ValueError"
    assert explain(ValueError("no such city"), str) == "ValueError: no such city"


@pytest.mark.parametrize(
    "traceback",
    [
        'Traceback (most recent call last):\n  File "x.py", line 3, in f\n    secret()',
        '  + Exception Group Traceback (most recent call last):\n  |   File "x.py", line 3, in f',
        '  File "x.py", line 3, in f\n    secret()\n',
    ],
)
def test_a_text_ends_where_a_traceback_begins(traceback: str) -> None:
    assert plain(f"boom\n{traceback}") == "boom"
    assert explain(ValueError(traceback), str) == "ValueError"


def test_the_name_of_a_class_is_as_safe_as_its_text() -> None:
    redactor = Redactor()
    redactor.add("s3cr3t")
    assert explain(type("Boom_s3cr3t", (Exception,), {})("x"), redactor) == "Boom_***: x"
    assert len(explain(type("B" * 5000, (Exception,), {})(), redactor)) <= 200


def test_the_folder_that_was_told_last_is_known_however_many_there_are() -> None:
    for number in range(500):
        know_folder(Path(f"/srv/crowd{number}/folder"))
    assert "crowd499" not in safe_text("x/srv/crowd499/folder/a.py", str)
