"""The key of a host: made once, read by its owner alone, and known to others by one line."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from enginehost.databus.config import DatabusConfig
from enginehost.databus.keys import (
    is_key_id,
    key_id,
    load_key,
    new_key,
    read_public,
    signing_key,
    write_key,
    written,
)
from enginehost.errors import ConfigError

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")


@given(st.builds(lambda: new_key().public))
def test_a_public_key_is_read_as_it_was_written(public: bytes) -> None:
    assert read_public(f" {written(public)}\n") == public
    assert is_key_id(key_id(public))


FIELD = 2**255 - 19
OF_ORDER_8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
SMALL = [0, 1, FIELD - 1, FIELD, FIELD + 1, OF_ORDER_8, FIELD - OF_ORDER_8]


@pytest.mark.parametrize("odd", [0, 1])
@pytest.mark.parametrize("number", SMALL)
def test_a_key_of_small_order_is_none_however_it_is_written(number: int, odd: int) -> None:
    public = (number | odd << 255).to_bytes(32, "little")
    with pytest.raises(ValueError, match="anybody can sign"):
        read_public(written(public))


def test_what_is_no_point_of_the_curve_is_no_key() -> None:
    for number in (2, FIELD + 3, 2**255 - 1):
        with pytest.raises(ValueError, match="no key of Ed25519"):
            read_public(written(number.to_bytes(32, "little")))


def test_the_id_of_a_key_never_changes() -> None:
    # sha256 of 32 zero bytes, its first half
    assert key_id(bytes(32)) == "66687aadf862bd776c8fc18b8e9f8e20"


@given(st.one_of(st.text(max_size=60), st.binary(max_size=40).map(written)))
def test_what_is_no_public_key_is_told_what_one_is(text: str) -> None:
    said = ""
    try:
        assert len(read_public(text)) == 32
    except ValueError as error:
        said = str(error)
    assert not said or "enginehost databus keygen" in said


def test_a_key_that_was_written_is_read_and_never_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "state" / "databus" / "key.pem"
    first, second = new_key(), new_key()
    write_key(path, first)
    with pytest.raises(ConfigError, match="there is a key already"):
        write_key(path, second)
    assert load_key(path).public == first.public
    write_key(path, second, force=True)
    assert load_key(path).id == second.id
    assert [one.name for one in path.parent.iterdir()] == ["key.pem"]


@posix
def test_only_its_owner_can_read_a_key(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    before = os.umask(0)
    try:
        write_key(path, new_key())
        write_key(path, new_key(), force=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(ConfigError, match=f"mode is {mode:04o}") as caught:
            load_key(path)
        assert "chmod 600" in caught.value.hint
    path.chmod(0o400)
    load_key(path)


def test_no_representation_of_a_key_shows_it() -> None:
    key = new_key()
    assert key.private.private_bytes_raw().hex() not in repr(key)
    assert "0x" not in repr(key)


OTHER_KINDS = {
    "another kind": generate_private_key(SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    ),
    "passphrase": new_key().private.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")
    ),
    "no private key": b"-----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----\n",
    "is no private": b"",
}


@pytest.mark.parametrize("message", OTHER_KINDS)
def test_a_file_that_holds_no_usable_key_says_why(tmp_path: Path, message: str) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(OTHER_KINDS[message])
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=message) as caught:
        load_key(path)
    assert caught.value.path == str(path)


def test_a_key_that_cannot_be_had_is_an_error_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no key") as caught:
        load_key(tmp_path / "key.pem")
    assert "enginehost databus keygen" in caught.value.hint
    with pytest.raises(ConfigError, match="no regular file"):
        load_key(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_key(tmp_path / "file" / "key.pem", new_key())


def test_a_host_signs_where_it_has_a_key_and_others_can_reach_it(tmp_path: Path) -> None:
    def signs(**said: object) -> bool:
        return signing_key(DatabusConfig(state_dir=tmp_path, **said)) is not None  # pyright: ignore

    assert not signs(interface="eth0")
    assert signing_key(DatabusConfig(interface="eth0")) is None
    write_key(tmp_path / "databus" / "key.pem", new_key())
    assert signs(interface="eth0")
    assert not signs(interface="eth0", sign=False)
    assert not signs()
    assert signs(sign=True)


def test_a_key_that_a_setting_asks_for_has_to_be_there(tmp_path: Path) -> None:
    missing = tmp_path / "none.pem"
    for config in (
        DatabusConfig(state_dir=tmp_path, sign=True),
        DatabusConfig(interface="eth0", key_file=missing),
        DatabusConfig(key_file=missing),
        DatabusConfig(sign=True),
    ):
        with pytest.raises(ConfigError, match="there is no key"):
            signing_key(config)
    assert signing_key(DatabusConfig(key_file=missing, sign=False)) is None
    write_key(missing, new_key())
    assert signing_key(DatabusConfig(key_file=missing)) is None  # on loopback
