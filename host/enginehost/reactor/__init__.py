"""Reactors in SEMOSS's meaning: a class that takes nouns, executes, and gives a noun.

::

    from enginehost.reactor import NounMetadata, PixelDataType, Reactor

    class OrderTotalReactor(Reactor):
        keys_to_get = ["order", "currency"]
        key_required = [1, 0]

        def execute(self):
            total = sum(noun.value for noun in self.store["order"])
            return NounMetadata(total, PixelDataType.CONST_DECIMAL)

A reactor gets a new instance for each call, so it may keep state on ``self``. Only the standard
library is needed: reactors run in worker processes. SEMOSS's camelCase names work too (``keysToGet``,
``organizeKeys``, …).
"""

from __future__ import annotations

from enginehost.reactor.nouns import (
    GenRowStruct,
    NounMetadata,
    NounStore,
    PixelDataType,
    PixelOperationType,
    predict_type,
)
from enginehost.reactor.reactor import MissingNouns, Reactor, ReactorFailed, describe, run

__all__ = [
    "GenRowStruct",
    "MissingNouns",
    "NounMetadata",
    "NounStore",
    "PixelDataType",
    "PixelOperationType",
    "Reactor",
    "ReactorFailed",
    "describe",
    "predict_type",
    "run",
]
