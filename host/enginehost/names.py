"""Function names on the faces.

Each face allows its own alphabet and length. A name that fits stays as it is. Any other becomes a
readable remainder and a hash of the whole name, so that every host maps it alike::

    weather.today        openai     weather_today_xh4qhyty
    größe                mcp        grosse_2nj2ezy3

Within one catalog :class:`FaceNames` keeps the mapping one to one and resolves it back.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_HASH_LENGTH = 8  # 40 bits: two of 10,000 mapped names share a hash with probability 5e-5
_LOOKS_MAPPED = re.compile(rf"_[a-z2-7]{{{_HASH_LENGTH}}}\Z")
_FOLDED = str.maketrans({"ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L"})


@dataclass(frozen=True, slots=True)
class NameRule:
    """What a face allows in a name.

    ``pattern`` matches a whole legal name, ``illegal`` one character that may not stand in it,
    ``limit`` is the greatest length in characters (all characters are ASCII), ``first`` is put before
    a remainder whose first character would be illegal there.
    """

    pattern: re.Pattern[str]
    illegal: re.Pattern[str]
    limit: int
    first: str = ""

    def fits(self, name: str) -> bool:
        """Whether the face takes ``name`` unchanged."""
        return self.pattern.fullmatch(name) is not None

    def mapped(self, name: str, attempt: int = 0) -> str:
        """A legal name for one that does not fit; each ``attempt`` gives another."""
        text = unicodedata.normalize("NFKD", name.translate(_FOLDED))
        text = "".join(char for char in text if not unicodedata.combining(char))
        text = self.illegal.sub("_", text)[: self.limit - _HASH_LENGTH - 1 - len(self.first)].strip("_")
        face = f"{text or 'f'}_{_digest(name, attempt)}"
        return face if self.fits(face) else self.first + face


class Utf8NameRule(NameRule):
    """Any text of 1 to ``limit`` bytes of UTF-8 without NUL (a bounded DDS string)."""

    __slots__ = ()

    def fits(self, name: str) -> bool:
        """Whether the face takes ``name`` unchanged."""
        try:
            return 0 < len(name.encode()) <= self.limit and "\0" not in name
        except UnicodeEncodeError:  # a lone surrogate
            return False

    def mapped(self, name: str, attempt: int = 0) -> str:
        """A legal name for one that does not fit; each ``attempt`` gives another."""
        room = self.limit - _HASH_LENGTH - 1
        text = name.replace("\0", "_").encode(errors="replace")[:room].decode(errors="ignore")
        return f"{text or 'f'}_{_digest(name, attempt)}"


class AnyNameRule(NameRule):
    """Every name fits."""

    __slots__ = ()

    def fits(self, name: str) -> bool:
        """Whether the face takes ``name`` unchanged."""
        return True


def _digest(name: str, attempt: int) -> str:
    seed = f"{name}\0{attempt}" if attempt else name
    raw = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(raw[:5]).decode("ascii").lower()


def _rule(alphabet: str, limit: int, start: str = "", first: str = "") -> NameRule:
    pattern = f"[{start}][{alphabet}]{{0,{limit - 1}}}" if start else f"[{alphabet}]{{1,{limit}}}"
    return NameRule(re.compile(pattern), re.compile(f"[^{alphabet}]+"), limit, first)


_STRICTEST = _rule("A-Za-z0-9_-", 64)
_ANY = re.compile("")

NAME_RULES: Mapping[str, NameRule] = {
    "json-schema": AnyNameRule(_ANY, _ANY, 0),
    "openai": _STRICTEST,
    "openai-strict": _STRICTEST,
    "openai-responses": _STRICTEST,
    "bedrock": _STRICTEST,
    "anthropic": _STRICTEST,
    # The Gemini API allows colons too, its enterprise sibling wants a letter or underscore first.
    "gemini": _rule("A-Za-z0-9_.-", 64, start="A-Za-z_", first="_"),
    "mcp": _rule("A-Za-z0-9_.-", 128),
    "genesis": Utf8NameRule(_ANY, _ANY, 256),
}
"""The rule of each kind of face."""

PARAMETER_RULES: Mapping[str, NameRule] = {
    # Both refuse the whole request for one other key of the top-level ``properties``.
    "anthropic": _rule("A-Za-z0-9_.-", 64),
    "bedrock": _rule("A-Za-z0-9_.-", 64),
    "gemini": _rule("A-Za-z0-9_", 64, start="A-Za-z_", first="_"),
}
"""Faces that restrict the names of parameters as well, with their rules."""


def name_rule(kind: str) -> NameRule:
    """The rule for function names of ``kind``; a kind of a plugin gets the strictest."""
    return NAME_RULES.get(kind, _STRICTEST)


def face_name(name: str, kind: str) -> str:
    """The name of ``name`` on a face of ``kind``, as if nothing else were in the catalog."""
    rule = name_rule(kind)
    return name if rule.fits(name) else rule.mapped(name)


class FaceNames:
    """The names of one catalog on one kind of face: one to one, whatever the order of ``names``.

    A mapped name that is taken (by a name that fits, or by another mapped one) is mapped again with
    a further hash; only then does a name on the face depend on what else the catalog holds. A name that does
    not fit has its short name on the face where that fits: ``short`` has those, which no other name is.
    """

    def __init__(
        self, names: Iterable[str], kind: str | NameRule, short: Mapping[str, str] | None = None
    ) -> None:
        rule = kind if isinstance(kind, NameRule) else name_rule(kind)
        every = frozenset(names)
        self._fitting = frozenset(name for name in every if rule.fits(name))
        self._faces: dict[str, str] = {}
        self._names: dict[str, str] = {}
        rest = sorted(every - self._fitting)
        for name in rest:
            if short and (face := short.get(name)) is not None and rule.fits(face):
                self._take(name, face)
        for name in rest:
            if name not in self._faces:
                self._take(name, self._free(name, rule))

    def _take(self, name: str, face: str) -> None:
        self._faces[name] = face
        self._names[face] = name

    def _free(self, name: str, rule: NameRule) -> str:
        attempt = 0
        while (face := rule.mapped(name, attempt)) in self._fitting or face in self._names:
            attempt += 1
        return face

    def __len__(self) -> int:
        return len(self._fitting) + len(self._faces)

    @property
    def mapped(self) -> Mapping[str, str]:
        """The names that differ on the face, with their faces."""
        return self._faces

    def to_face(self, name: str) -> str:
        """The name on the face. ``KeyError`` for a name that the catalog does not have."""
        return name if name in self._fitting else self._faces[name]

    def from_face(self, face: str) -> str | None:
        """The catalog's name behind a name on the face."""
        return face if face in self._fitting else self._names.get(face)


def parameter_behind(face: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Which of a function's parameters some kind of face shows as ``face``, and that kind."""
    if _LOOKS_MAPPED.search(face):
        for kind, rule in PARAMETER_RULES.items():
            if (own := FaceNames(names, rule).from_face(face)) is not None:
                return own, kind
    return None
