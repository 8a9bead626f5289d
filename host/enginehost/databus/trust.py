"""Whose signatures count on the databus: a YAML file of public keys with their owners' names.

::

    keys:
    - name: plant-b                # the caller's subject in policy, log and audit
      key: ed25519:…               # as `enginehost databus keygen` prints it
      scopes: [math:use]           # what the key grants; may be left out
      tenant: acme                 # may be left out
      services: [plant-b]          # whose functions it may offer: patterns; left out: any
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from enginehost.caller import RESERVED_SUBJECTS, Caller
from enginehost.checked_model import Section, checked
from enginehost.databus.keys import is_key_id, key_id, read_public
from enginehost.errors import ConfigError
from enginehost.policy_rules import Word, Words
from enginehost.yaml_document import Loc, Place, read_document

if TYPE_CHECKING:
    from enginehost.databus.config import DatabusConfig

log = logging.getLogger("enginehost.databus")

LOOK_EVERY = 1.0
"""Seconds after which the file may be looked at again."""

_HEAD = (
    "# Keys that count on the databus. `enginehost databus trust` writes this file and keeps no comments.\n"
)


class KeyEntry(Section):
    """One key in the file."""

    name: Word = Field(description="Whose it is: the subject of its callers.")
    key: Word = Field(description="The public key.")
    scopes: Words = Field(default=(), description="What it grants.")
    tenant: str = Field(default="", max_length=1024, description="The customer its owner belongs to.")
    services: Words | None = Field(
        default=None,
        description="Patterns: the services whose functions it may offer; absent: any; empty: none.",
    )

    @field_validator("name")
    @classmethod
    def _is_free(cls, value: str) -> str:
        if value in RESERVED_SUBJECTS:
            raise ValueError(f"{value!r} is a name that the host itself gives to callers; choose another one")
        if is_key_id(value):
            raise ValueError(f"{value!r} looks like the id of a key; choose another name")
        if not value.isprintable():
            raise ValueError("a name holds no control characters")
        return value

    @field_validator("key")
    @classmethod
    def _is_key(cls, value: str) -> str:
        read_public(value)
        return value.strip()

    @property
    def id(self) -> str:
        """The id of the key."""
        return key_id(read_public(self.key))


class TrustFile(Section):
    """The whole file."""

    keys: tuple[KeyEntry, ...] = Field(default=(), description="The keys.")

    @field_validator("keys", mode="before")
    @classmethod
    def _may_be_empty(cls, value: Any) -> Any:
        """A list whose last entry was taken out, which YAML reads as null: no key counts any more."""
        return () if value is None else value


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A key that counts, and who calls with it."""

    id: str
    public: bytes
    caller: Caller
    services: tuple[str, ...] | None = None

    def offers(self, service: str) -> bool:
        """Whether functions of this service may be the key owner's."""
        return self.services is None or any(fnmatchcase(service, one) for one in self.services)


def read_trust(path: Path) -> TrustFile:
    """The keys in a file; none where there is no file. Raises :class:`ConfigError` at what is wrong."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return TrustFile()
    except OSError:
        pass  # reading it says why
    else:
        _require_own(path, mode)
    document = read_document(path)

    def place(loc: Loc) -> Place:
        prefixes = (loc[:length] for length in range(len(loc), 0, -1))
        return next((document.places[p] for p in prefixes if p in document.places), Place(document.path, 1))

    if document.value is None:
        return TrustFile()
    if not isinstance(document.value, dict):
        raise place(()).error("a trust file has the key keys", "`enginehost databus trust` writes it")
    file = checked(TrustFile, document.value, place)
    _require_differing(file.keys, place)
    return file


def _require_own(path: Path, mode: int) -> None:
    """Whoever can write the file decides whom the host believes."""
    if stat.S_ISREG(mode) and mode & 0o022 and sys.platform != "win32":
        raise ConfigError(
            f"other users may write this trust file (its mode is {stat.S_IMODE(mode):04o})",
            path=str(path),
            hint="chmod go-w it, and look whether all keys in it are meant to count",
        )


MISSING_TRUST_HINT = "`enginehost databus trust` writes it; the setting databus.trust_file says where"


def missing_trust(config: DatabusConfig) -> str:
    """What to say where a config counts on a trust file that is not there; empty where it does not."""
    path = config.trust_path
    if config.trust_file is None and config.accept != "trusted":
        return ""
    if path is not None and path.exists():
        return ""
    effect = "" if config.accepts_any else ", and no function of others enters the catalog"
    return f"there is no trust file, so nobody's signature counts{effect}"


def _require_differing(entries: Sequence[KeyEntry], place: Callable[[Loc], Place]) -> None:
    for what in ("name", "key"):
        first: dict[str, int] = {}
        for number, entry in enumerate(entries):
            value: str = getattr(entry, what)
            if first.setdefault(value, number) != number:
                line = place(("keys", first[value], what)).line
                message = f"two keys have the {what} {value!r}, the first on line {line}"
                raise place(("keys", number, what)).error(message, "keep one of them")


class Trust:
    """The keys that count now: the file is read again when it has changed, with no thread of its own.

    It is looked at when a key is asked for, at most once a second. Raises :class:`ConfigError` where it is
    wrong at first. One that becomes wrong leaves the old keys in force, which the log says, and
    :attr:`problem`; where it goes, no key counts. ``path`` may be ``None``: no key counts.
    """

    def __init__(self, path: Path | None, now: Callable[[], float] = time.monotonic) -> None:
        self.problem: ConfigError | None = None
        self._path = path
        self._now = now
        self._next = now() + LOOK_EVERY
        self._seen = _fingerprint(path)
        self._keys = _by_id(read_trust(path)) if path is not None else {}

    def find(self, id: str) -> TrustedKey | None:
        """The key with this id, where it counts."""
        if self._now() >= self._next:
            self._look()
        return self._keys.get(id)

    def keys(self) -> Iterable[TrustedKey]:
        """All keys that count."""
        self.find("")
        return self._keys.values()

    def _look(self) -> None:
        self._next = self._now() + LOOK_EVERY
        seen = _fingerprint(self._path)
        if seen == self._seen or self._path is None:
            return
        self._seen = seen
        try:
            self._keys = _by_id(read_trust(self._path))
        except ConfigError as error:
            self.problem = error
            log.error("the trust file is wrong and the old keys count: %s", error)
        else:
            self.problem = None
            log.info("the trust file was read again: %d keys count", len(self._keys))


def _by_id(file: TrustFile) -> dict[str, TrustedKey]:
    return {(one := _trusted(entry)).id: one for entry in file.keys}


def _trusted(entry: KeyEntry) -> TrustedKey:
    public = read_public(entry.key)
    caller = Caller(entry.name, entry.tenant, frozenset(entry.scopes), "databus")
    return TrustedKey(key_id(public), public, caller, entry.services)


def _fingerprint(path: Path | None) -> tuple[int, ...] | None:
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return found and (found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns)


def trust_key(path: Path, entry: KeyEntry) -> bool:
    """Write a key into the file; ``False`` where its owner had it already, with these rights or others.

    Raises :class:`ConfigError`: the file is wrong, or the name or the key is somebody else's.
    """
    with _alone(path):
        kept = list(read_trust(path).keys)
        for other in kept:
            if (other.name == entry.name) is not (other.key == entry.key):
                taken = f"the name {entry.name!r} is another key's"
                known = f"this key is trusted already, as {other.name!r}"
                hint = f"to change that, first: enginehost databus trust --remove {other.id}"
                raise ConfigError(taken if other.name == entry.name else known, path=str(path), hint=hint)
        others = [other for other in kept if other.name != entry.name]
        _write(path, [*others, entry])
        return len(others) == len(kept)


def distrust(path: Path, name: str) -> KeyEntry | None:
    """Take the key of this name, or with this id, out of the file; ``None`` where there is none."""
    with _alone(path):
        kept = read_trust(path).keys
        gone = next((entry for entry in kept if name in (entry.name, entry.id)), None)
        if gone is not None:
            _write(path, [entry for entry in kept if entry is not gone])
        return gone


def _write(path: Path, entries: list[KeyEntry]) -> None:
    import yaml

    values = {"keys": [_plain(entry) for entry in entries]}
    text = _HEAD + yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=1_000)
    path = path.resolve()  # of a link, the file that it leads to is replaced
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o600)
        aside.replace(path)
    except OSError as failure:
        aside.unlink(missing_ok=True)
        raise _unwritable(path, failure) from None


def _plain(entry: KeyEntry) -> dict[str, object]:
    values: dict[str, object] = {"name": entry.name, "key": entry.key}
    if entry.scopes:
        values["scopes"] = list(entry.scopes)
    if entry.tenant:
        values["tenant"] = entry.tenant
    if entry.services is not None:
        values["services"] = list(entry.services)
    return values


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """One writer at a time: two commands at once would lose what one of them wrote."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as failure:
        raise _unwritable(path, failure) from None
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(lock, msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _unwritable(path: Path, failure: OSError) -> ConfigError:
    return ConfigError(f"the trust file cannot be written: {failure.strerror}", path=str(path))
