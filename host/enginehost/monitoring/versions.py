"""Which version of a function it was that ran: a hash of what callers and models see of it."""

from __future__ import annotations

import hashlib

from enginehost.signature import FunctionSignature
from enginehost.values import encode

_CHARACTERS = 16


class Versions:
    """Remembers the hash of each function's latest signature."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[FunctionSignature, str]] = {}

    def of(self, signature: FunctionSignature) -> str:
        """The hash of a signature."""
        known = self._known.get(signature.name)
        if known is None or known[0] is not signature:
            known = self._known[signature.name] = signature, version_of(signature)
        return known[1]


def version_of(signature: FunctionSignature) -> str:
    """16 hexadecimal digits."""
    one = signature
    said = [one.name, one.description, one.parameters, one.result, one.streaming]
    return hashlib.sha256(encode(said, allow_nan=True)).hexdigest()[:_CHARACTERS]
