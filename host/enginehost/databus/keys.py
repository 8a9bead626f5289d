"""The key with which a host signs on the databus (Ed25519, RFC 8032), and how keys are written down.

A public key is one line, ``ed25519:`` and the base64 of its 32 bytes. Its id is the first half of its
SHA-256, in hexadecimal: short enough for every message, and nobody can make a second key that has it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
import sys
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from enginehost.databus.points import is_good_point
from enginehost.errors import ConfigError
from enginehost.regular_file import read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    from enginehost.databus.config import DatabusConfig

KEY_TYPE = "ed25519:"
ID_CHARACTERS = 32
KEYGEN = "`enginehost databus keygen`"

_PUBLIC_BYTES = 32
_MOST_FILE = 16 << 10


@dataclass(frozen=True)
class SigningKey:
    """A private key. Its text is in no representation of it."""

    private: Ed25519PrivateKey = field(repr=False)

    @cached_property
    def public(self) -> bytes:
        """The public key: 32 bytes."""
        return self.private.public_key().public_bytes_raw()

    @cached_property
    def id(self) -> str:
        """The id under which others look for the public key."""
        return key_id(self.public)

    def sign(self, message: bytes) -> bytes:
        """The signature: 64 bytes."""
        return self.private.sign(message)


def new_key() -> SigningKey:
    """A new key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return SigningKey(Ed25519PrivateKey.generate())


def key_id(public: bytes) -> str:
    """The id of a public key."""
    return hashlib.sha256(public).hexdigest()[:ID_CHARACTERS]


def is_key_id(text: str) -> bool:
    """Whether ``text`` could be the id of a key."""
    return len(text) == ID_CHARACTERS and not set(text) - set("0123456789abcdef")


def written(public: bytes) -> str:
    """A public key as people pass it on."""
    return KEY_TYPE + base64.b64encode(public).decode()


@lru_cache(maxsize=4_096)
def read_public(text: str) -> bytes:
    """The public key in ``text``. Raises :class:`ValueError`, which says what it should be."""
    wanted = f"a public key is {KEY_TYPE} with 44 characters of base64, as {KEYGEN} prints it"
    try:
        public = base64.b64decode(text.strip().removeprefix(KEY_TYPE), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(wanted) from None
    if len(public) != _PUBLIC_BYTES or written(public) != text.strip():
        raise ValueError(wanted)
    if not is_good_point(public):
        raise ValueError(f"this is no key of Ed25519, or one with which anybody can sign; {wanted}")
    return public


@lru_cache(maxsize=4_096)
def verifier(public: bytes) -> Ed25519PublicKey:
    """What checks signatures of a public key; kept, since to make it takes as long as a signature."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(public)


def write_key(path: Path, key: SigningKey, *, force: bool = False) -> None:
    """Keep a private key as PKCS#8 PEM that its owner alone can read.

    Raises :class:`ConfigError` where it cannot be written, or is there and ``force`` is not given.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    data = key.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    if not force and os.path.lexists(path):
        hint = "--show prints its public key; --force puts a new key in its place, which nobody trusts yet"
        raise ConfigError("there is a key already", path=str(path), hint=hint)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, data) if force else _create(path, data)
    except OSError as failure:
        raise ConfigError(f"the key cannot be written: {failure.strerror}", path=str(path)) from None


def _replace(path: Path, data: bytes) -> None:
    # first whole under another name: a crash leaves the old key or the new one
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    aside.unlink(missing_ok=True)
    _create(aside, data)
    aside.replace(path)


def _create(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def load_key(path: Path) -> SigningKey:
    """The private key in a file. Raises :class:`ConfigError`, also where others can read the file."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        data = read_regular(path, _MOST_FILE)
    except OSError as failure:
        missing = isinstance(failure, FileNotFoundError)
        hint = f"{KEYGEN} makes one" if missing else "the user that runs the host has to be able to read it"
        message = "there is no key" if missing else f"the key cannot be read: {failure.strerror}"
        raise ConfigError(message, path=str(path), hint=hint) from None
    if mode & 0o077 and sys.platform != "win32":
        raise ConfigError(
            f"other users may read or write this key (its mode is {mode:04o})",
            path=str(path),
            hint="chmod 600 it; if somebody may have read it: `enginehost databus keygen --force`",
        )
    return _parsed(data, path)


def _parsed(data: bytes, path: Path) -> SigningKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(data, password=None)
    except TypeError:
        what = "this key has a passphrase, and a host has nobody to ask for it"
    except (ValueError, UnsupportedAlgorithm):
        what = "this is no private key (PKCS#8, PEM)"
    else:
        if isinstance(key, Ed25519PrivateKey):
            return SigningKey(key)
        what = "this is a private key of another kind than Ed25519"
    raise ConfigError(
        what, path=str(path), hint="`enginehost databus keygen --force` makes a good one in its place"
    )


def signing_key(config: DatabusConfig) -> SigningKey | None:
    """The key with which a host of this ``config`` signs; ``None`` where it does not.

    A ``key_file`` that the config names is read also where nothing is signed on loopback.

    Raises :class:`ConfigError` where it should sign and cannot: the key is not usable, or a setting asks
    for one that is not there.
    """
    path = config.key_path
    if config.sign is False:
        return None
    asked = config.sign is True or config.key_file is not None
    signs = config.sign is True or not config.loopback
    if not signs and not asked:
        return None
    if path is None:
        if asked:
            raise ConfigError("there is no key to sign with", hint="set databus.key_file, or state_dir")
        return None
    if not asked and not os.path.lexists(path):
        return None
    key = load_key(path)
    return key if signs else None
