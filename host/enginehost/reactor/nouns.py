"""Nouns: the values that reactors take and give, each with its Pixel type."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from enginehost.reactor.types import (
    FAILED_OPERATIONS,
    FAILED_TYPES,
    PixelDataType,
    PixelOperationType,
    operation,
)

_TYPES: tuple[tuple[type | tuple[type, ...], PixelDataType], ...] = (
    (bool, PixelDataType.BOOLEAN),
    (int, PixelDataType.CONST_INT),
    ((float, Decimal), PixelDataType.CONST_DECIMAL),
    (str, PixelDataType.CONST_STRING),
    (datetime, PixelDataType.CONST_TIMESTAMP),
    (date, PixelDataType.CONST_DATE),
    (Mapping, PixelDataType.MAP),
    ((list, tuple, set, frozenset), PixelDataType.VECTOR),
)


def predict_type(value: Any) -> PixelDataType:
    """The Pixel type of a plain value."""
    if value is None:
        return PixelDataType.NULL_VALUE
    return next(
        (found for kind, found in _TYPES if isinstance(value, kind)), PixelDataType.CUSTOM_DATA_STRUCTURE
    )


@dataclass(slots=True, init=False, eq=True)
class NounMetadata:
    """A value with its Pixel type and what it says of its operation.

    ``NounMetadata(value)`` predicts the type; ``NounMetadata(value, PixelDataType.MAP,
    PixelOperationType.SUCCESS)`` gives it. Types and operations may be given as text; without operations it
    is an ``OPERATION``, as in SEMOSS. ``additional`` are nouns that come beside the result: they go to the
    log.
    """

    value: Any
    data_type: PixelDataType
    operations: tuple[str, ...]
    additional: list[NounMetadata] = field(repr=False)

    def __init__(self, value: Any, data_type: PixelDataType | str | None = None, *operations: str) -> None:
        self.value = value
        self.data_type = predict_type(value) if data_type is None else PixelDataType(data_type)
        self.operations = tuple(map(operation, operations)) or (PixelOperationType.OPERATION,)
        self.additional = []

    @classmethod
    def error(cls, message: str | Mapping[str, Any], *operations: str) -> NounMetadata:
        """The noun of a failed operation: returning it makes the call fail with ``message``."""
        return cls(message, PixelDataType.ERROR, PixelOperationType.ERROR, *operations)

    @classmethod
    def warning(cls, message: str, *operations: str) -> NounMetadata:
        """A message that is the result and goes to the log as a warning."""
        return cls(message, PixelDataType.CONST_STRING, PixelOperationType.WARNING, *operations)

    @classmethod
    def success(cls, message: str, *operations: str) -> NounMetadata:
        """A message that tells of success."""
        return cls(message, PixelDataType.CONST_STRING, PixelOperationType.SUCCESS, *operations)

    @property
    def failed(self) -> bool:
        """Whether it tells of an error."""
        return self.data_type in FAILED_TYPES or not FAILED_OPERATIONS.isdisjoint(self.operations)

    @property
    def warns(self) -> bool:
        """Whether it tells of a warning."""
        return PixelOperationType.WARNING in self.operations

    @property
    def text(self) -> str:
        """The value as people read it: text as it is, of an object with a message that message, else JSON."""
        value = self.value
        if isinstance(value, Mapping):
            told = (value.get(name) for name in ("errorMessage", "message", "error"))
            value = next((one for one in told if isinstance(one, str) and one), value)
        return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)

    def plain(self) -> Any:
        """The value without nouns in it; ``None`` of a ``NULL_VALUE``."""
        return None if self.data_type is PixelDataType.NULL_VALUE else without_nouns(self.value)

    def get_value(self) -> Any:
        """The value."""
        return self.value

    def get_noun_type(self) -> PixelDataType:
        """The Pixel type."""
        return self.data_type

    def get_op_type(self) -> list[str]:
        """What it says of its operation."""
        return list(self.operations)

    def add_additional_op_types(self, *operations: str) -> None:
        """Say more of its operation."""
        self.operations = (*self.operations, *map(operation, operations))

    def add_additional_return(self, noun: NounMetadata) -> None:
        """Have a noun come beside the result: its text goes to the log, a warning as a warning."""
        self.additional.append(noun)

    def add_all_additional_return(self, nouns: Iterable[NounMetadata]) -> None:
        """Have several nouns come beside the result."""
        self.additional.extend(nouns)

    def get_additional_return(self) -> list[NounMetadata]:
        """The nouns that come beside the result."""
        return self.additional

    # SEMOSS's names
    getValue = get_value  # noqa: N815
    getNounType = get_noun_type  # noqa: N815
    getOpType = get_op_type  # noqa: N815
    addAdditionalOpTypes = add_additional_op_types  # noqa: N815
    addAdditionalReturn = add_additional_return  # noqa: N815
    addAllAdditionalReturn = add_all_additional_return  # noqa: N815
    getAdditionalReturn = get_additional_return  # noqa: N815
    getErrorNounMessage = error  # noqa: N815
    getWarningNounMessage = warning  # noqa: N815
    getSuccessNounMessage = success  # noqa: N815


def without_nouns(value: Any) -> Any:
    """A value without nouns: a noun's own, and those of the nouns that a list or a mapping holds.

    Lists and mappings that hold none are themselves: nobody looks through a large result for nothing.
    """
    if isinstance(value, NounMetadata):
        return value.plain()
    if type(value) in (list, tuple) and any(isinstance(item, NounMetadata) for item in value):
        return [without_nouns(item) for item in value]
    if type(value) is dict and any(isinstance(item, NounMetadata) for item in value.values()):
        return {key: without_nouns(item) for key, item in value.items()}
    return value
