"""Nouns: the values that reactors take and give, each with its Pixel type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, overload


class PixelDataType(StrEnum):
    """What kind of value a noun holds."""

    CONST_STRING = "CONST_STRING"
    CONST_INT = "CONST_INT"
    CONST_DECIMAL = "CONST_DECIMAL"
    CONST_DATE = "CONST_DATE"
    CONST_TIMESTAMP = "CONST_TIMESTAMP"
    BOOLEAN = "BOOLEAN"
    MAP = "MAP"
    VECTOR = "VECTOR"
    NULL_VALUE = "NULL_VALUE"
    JSON_OBJECT = "JSON_OBJECT"
    CUSTOM_DATA_STRUCTURE = "CUSTOM_DATA_STRUCTURE"
    FORMATTED_DATA_SET = "FORMATTED_DATA_SET"
    ERROR = "ERROR"


class PixelOperationType(StrEnum):
    """What a noun says about the operation that made it."""

    OPERATION = "OPERATION"
    SUCCESS = "SUCCESS"
    WARNING = "WARNING"
    ERROR = "ERROR"


_TYPES: tuple[tuple[type | tuple[type, ...], PixelDataType], ...] = (
    (bool, PixelDataType.BOOLEAN),
    (int, PixelDataType.CONST_INT),
    (float, PixelDataType.CONST_DECIMAL),
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


@dataclass(frozen=True, slots=True, init=False)
class NounMetadata:
    """A value with its Pixel type and what it says of its operation.

    ``NounMetadata(value)`` predicts the type; ``NounMetadata(value, PixelDataType.MAP,
    PixelOperationType.OPERATION)`` gives it. Types and operations may be given as text.
    """

    value: Any
    data_type: PixelDataType
    operations: tuple[PixelOperationType, ...]

    def __init__(
        self,
        value: Any,
        data_type: PixelDataType | str | None = None,
        *operations: PixelOperationType | str,
    ) -> None:
        known = predict_type(value) if data_type is None else PixelDataType(data_type)
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "data_type", known)
        object.__setattr__(self, "operations", tuple(PixelOperationType(one) for one in operations))

    @classmethod
    def error(cls, message: str) -> NounMetadata:
        """The noun of a failed operation: returning it makes the call fail with ``message``."""
        return cls(message, PixelDataType.CONST_STRING, PixelOperationType.ERROR)

    @property
    def failed(self) -> bool:
        """Whether it tells of an error."""
        return self.data_type is PixelDataType.ERROR or PixelOperationType.ERROR in self.operations

    def get_value(self) -> Any:
        """The value."""
        return self.value

    def get_noun_type(self) -> PixelDataType:
        """The Pixel type."""
        return self.data_type

    def get_op_type(self) -> list[PixelOperationType]:
        """What it says of its operation."""
        return list(self.operations)

    getValue = get_value  # noqa: N815 - SEMOSS's name
    getNounType = get_noun_type  # noqa: N815 - SEMOSS's name
    getOpType = get_op_type  # noqa: N815 - SEMOSS's name


class GenRowStruct(list[NounMetadata]):
    """The nouns under one name, in order."""

    holds_collection: bool = False
    """Whether a collection was added, of whatever length."""

    def add(self, value: Any, data_type: PixelDataType | str | None = None) -> None:
        """Append a value; the elements of a collection one by one."""
        if isinstance(value, NounMetadata):
            self.append(value)
        elif isinstance(value, (list, tuple, set, frozenset)):
            self.holds_collection = True
            self.extend(NounMetadata(item, data_type) for item in value)
        else:
            self.append(NounMetadata(value, data_type))

    def values(self) -> list[Any]:
        """The plain values."""
        return [noun.value for noun in self]

    def value(self) -> Any:
        """The one value; all of them where a collection or several were added; ``None`` where nothing was."""
        values = self.values()
        if self.holds_collection or len(values) > 1:
            return values
        return values[0] if values else None

    def is_empty(self) -> bool:
        """Whether there is no noun."""
        return not self

    getAllValues = values  # noqa: N815 - SEMOSS's name
    isEmpty = is_empty  # noqa: N815 - SEMOSS's name


class NounStore:
    """Nouns by name, in the order in which they came."""

    def __init__(self, name: str = "reactorExecution") -> None:
        self.name = name
        self._rows: dict[str, GenRowStruct] = {}

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> NounStore:
        """The store of a call with these arguments."""
        store = cls()
        for name, value in arguments.items():
            store.make_noun(name).add(value)
        return store

    def make_noun(self, name: str) -> GenRowStruct:
        """The row of ``name``, made if there is none."""
        return self._rows.setdefault(name, GenRowStruct())

    @overload
    def get_noun(self, name: str) -> GenRowStruct | None: ...
    @overload
    def get_noun(self, name: str, default: GenRowStruct) -> GenRowStruct: ...
    def get_noun(self, name: str, default: GenRowStruct | None = None) -> GenRowStruct | None:
        """The row of ``name``, or ``default``."""
        return self._rows.get(name, default)

    def get_noun_keys(self) -> list[str]:
        """The names."""
        return list(self._rows)

    def __getitem__(self, name: str) -> GenRowStruct:
        """The row of ``name``; an empty one where there is none."""
        return self._rows.get(name, GenRowStruct())

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    makeNoun = make_noun  # noqa: N815 - SEMOSS's name
    getNoun = get_noun  # noqa: N815 - SEMOSS's name
    getNounKeys = get_noun_keys  # noqa: N815 - SEMOSS's name
