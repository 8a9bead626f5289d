"""Rows and stores of nouns: what a reactor is called with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from enginehost.reactor.nouns import NounMetadata
from enginehost.reactor.types import PixelDataType

_TEXTS = (PixelDataType.CONST_STRING, PixelDataType.COLUMN)
_NUMBERS = (PixelDataType.CONST_INT, PixelDataType.CONST_DECIMAL)


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

    def merge(self, other: GenRowStruct) -> None:
        """Append the nouns of another row."""
        self.extend(other)
        self.holds_collection = self.holds_collection or other.holds_collection

    def values(self) -> list[Any]:
        """The plain values."""
        return [noun.value for noun in self]

    def value(self) -> Any:
        """The one value; all of them where a collection or several were added; ``None`` where nothing was."""
        values = self.values()
        if self.holds_collection or len(values) > 1:
            return values
        return values[0] if values else None

    def get(self, position: int) -> Any:
        """The value at a position."""
        return self[position].value

    def get_noun(self, position: int) -> NounMetadata:
        """The noun at a position."""
        return self[position]

    def get_meta(self, position: int) -> PixelDataType:
        """The Pixel type at a position."""
        return self[position].data_type

    def nouns_of_type(self, *data_types: PixelDataType | str) -> list[NounMetadata]:
        """The nouns of these Pixel types."""
        return [noun for noun in self if noun.data_type in data_types]

    def values_of_type(self, *data_types: PixelDataType | str) -> list[Any]:
        """The values of these Pixel types."""
        return [noun.value for noun in self.nouns_of_type(*data_types)]

    def texts(self) -> list[str]:
        """The values that are text or names of columns."""
        return self.values_of_type(*_TEXTS)

    def numbers(self) -> list[Any]:
        """The values that are numbers."""
        return self.values_of_type(*_NUMBERS)

    def size(self) -> int:
        """How many nouns there are."""
        return len(self)

    def is_empty(self) -> bool:
        """Whether there is no noun."""
        return not self

    # SEMOSS's names
    getNoun = get_noun  # noqa: N815
    getMeta = get_meta  # noqa: N815
    getAllValues = values  # noqa: N815
    getAllStrValues = texts  # noqa: N815
    getAllNumericColumns = numbers  # noqa: N815
    getNounsOfType = nouns_of_type  # noqa: N815
    getValuesOfType = values_of_type  # noqa: N815
    isEmpty = is_empty  # noqa: N815


class NounStore:
    """Nouns by name, in the order in which they came; rows that came under one name are counted."""

    def __init__(self, name: str = "reactorExecution") -> None:
        self.name = name
        self._rows: dict[str, GenRowStruct] = {}
        self._came: dict[str, list[GenRowStruct]] = {}

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> NounStore:
        """The store of a call with these arguments."""
        store = cls()
        for name, value in arguments.items():
            store.make_noun(name).add(value)
        return store

    def make_noun(self, name: str) -> GenRowStruct:
        """The row of ``name``, made if there is none."""
        if name not in self._rows:
            self.add_noun(name, GenRowStruct())
        return self._rows[name]

    def add_noun(self, name: str, row: Iterable[NounMetadata]) -> None:
        """Add a row under ``name``: it is the row of that name, or is appended to the one that there is."""
        came = row if isinstance(row, GenRowStruct) else GenRowStruct(row)
        self._came.setdefault(name, []).append(came)
        if name in self._rows:
            if len(self._came[name]) == 2:  # the first one stays as it came
                first = GenRowStruct(self._rows[name])
                first.holds_collection = self._rows[name].holds_collection
                self._came[name][0] = first
            self._rows[name].merge(came)
        else:
            self._rows[name] = came

    def get_noun(self, name: str, number: int | None = None) -> GenRowStruct | None:
        """The row of ``name``, or the one that came as the ``number``-th (from 1); ``None`` without."""
        if number is None:
            return self._rows.get(name)
        came = self._came.get(name, [])
        return came[number - 1] if 0 < number <= len(came) else None

    def remove_noun(self, name: str) -> GenRowStruct | None:
        """Take the row of ``name`` out."""
        self._came.pop(name, None)
        return self._rows.pop(name, None)

    def count(self, name: str) -> int:
        """How many rows came under ``name``."""
        return len(self._came.get(name, ()))

    def get_noun_keys(self) -> list[str]:
        """The names."""
        return list(self._rows)

    def size(self) -> int:
        """How many names there are."""
        return len(self._rows)

    def __getitem__(self, name: str) -> GenRowStruct:
        """The row of ``name``; an empty one where there is none."""
        return self._rows.get(name, GenRowStruct())

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    # SEMOSS's names, of its older and its newer versions
    makeNoun = makeGenRowStruct = make_noun  # noqa: N815
    addNoun = add_noun  # noqa: N815
    getNoun = getGenRowStruct = get_noun  # noqa: N815
    removeNoun = remove_noun  # noqa: N815
    getCountForNoun = count  # noqa: N815
    getNounKeys = get_noun_keys  # noqa: N815
