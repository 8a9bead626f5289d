import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost.address import format_address, is_loopback, is_safe_url, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8484", "127.0.0.1", 8484),
        (":8484", "127.0.0.1", 8484),
        ("8484", "127.0.0.1", 8484),
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("[::1]:80", "::1", 80),
        ("localhost:1", "localhost", 1),
    ],
)
def test_an_address_is_read_and_written_back(text: str, host: str, port: int):
    assert parse_address(text) == (host, port)
    assert parse_address(format_address(host, port)) == (host, port)


@pytest.mark.parametrize(
    "text",
    ["", "a", "a:", "a:b", "::1:80", "[::1]", "[x]:1", "h:70000", "*:80", "http://h:1", "a b:1", "h:١"],
)
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(ValueError, match=r".+"):
        parse_address(text)


@given(st.text())
def test_no_text_breaks_the_address_parser(text: str):
    try:
        host, port = parse_address(text)
    except ValueError:
        return
    assert host
    assert 0 <= port <= 65535


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]
)
def test_loopback_hosts_are_recognised(host: str):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "example", "", "127.0.0.1.nip.example", "127.1"],
)
def test_whatever_another_machine_may_reach_is_not_loopback(host: str):
    assert not is_loopback(host)


def test_keys_are_fetched_over_https_or_on_loopback_only():
    assert is_safe_url("https://issuer.example/keys")
    assert is_safe_url("http://127.0.0.1:9/keys")
    for url in (
        "http://issuer.example",
        "file:///etc/passwd",
        "https://",
        "https://[",
        "http://localhost.example/",
    ):
        assert not is_safe_url(url)
