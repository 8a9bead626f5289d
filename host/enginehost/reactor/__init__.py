"""Reactors in SEMOSS's meaning: a class that takes nouns, executes, and gives a noun.

::

    from enginehost.reactor import NounMetadata, PixelDataType, Reactor

    class OrderTotalReactor(Reactor):
        keys_to_get = ["order", "currency"]
        key_required = [1, 0]
        key_types = {"order": "list[number]", "currency": str}

        def execute(self):
            total = sum(noun.value for noun in self.store["order"])
            return NounMetadata(total, PixelDataType.CONST_DECIMAL)

A reactor gets a new instance for each call, so it may keep state on ``self``. Only the standard
library is needed: reactors run in worker processes. SEMOSS's camelCase names work too (``keysToGet``,
``organizeKeys``, …).
"""

from __future__ import annotations

from enginehost.reactor.answers import ReactorFailed
from enginehost.reactor.finding import UnknownReactor
from enginehost.reactor.keys import description, read_keys
from enginehost.reactor.nouns import NounMetadata, predict_type
from enginehost.reactor.reactor import MissingNouns, Reactor, describe, run
from enginehost.reactor.rows import GenRowStruct, NounStore
from enginehost.reactor.types import PixelDataType, PixelOperationType

SemossPixelException = ReactorFailed
"""SEMOSS's name of :class:`ReactorFailed`."""

__all__ = [
    "GenRowStruct",
    "MissingNouns",
    "NounMetadata",
    "NounStore",
    "PixelDataType",
    "PixelOperationType",
    "Reactor",
    "ReactorFailed",
    "SemossPixelException",
    "UnknownReactor",
    "describe",
    "description",
    "predict_type",
    "read_keys",
    "run",
]
