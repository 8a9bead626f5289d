"""numpy arrays on the wire: as they lie in memory. numpy is imported only to make one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import prod
from typing import Any

from enginehost.values._text import MalformedJson

_KINDS = "biuf"
_MOST_ITEM_BYTES = 8
"""A long double is not the same everywhere."""

_CODES = {
    "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
    "f2": "e", "f4": "f", "f8": "d",
}  # fmt: skip
"""The names of numpy's types, as :mod:`struct` has them."""


def is_array(value: Any) -> bool:
    """Whether a value is a numpy array of numbers or truth values, with at least one dimension."""
    numpy = sys.modules.get("numpy")
    kind: Any = getattr(numpy, "ndarray", None)
    if kind is None or not isinstance(value, kind) or not value.shape:
        return False
    masked: Any = getattr(getattr(numpy, "ma", None), "MaskedArray", None)
    if masked is not None and isinstance(value, masked):
        return False
    return value.dtype.kind in _KINDS and value.dtype.itemsize <= _MOST_ITEM_BYTES


def layout(array: Any) -> tuple[str, list[int], memoryview]:
    """The type of an array's items (as numpy writes it), its shape, and its bytes, row by row."""
    data = array if array.flags.c_contiguous else array.copy(order="C")
    return array.dtype.str, list(array.shape), data.reshape(-1).view("u1").data


def rebuilt(dtype: str, shape: list[Any], data: bytes | bytearray | memoryview) -> Any:
    """The array; nested lists where numpy is not installed. Raises :class:`MalformedJson`, ``ValueError``."""
    if dtype[1:2] not in _KINDS or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise MalformedJson("the wire has no array like this")
    if prod(shape) * int(dtype[2:]) != len(data):
        raise MalformedJson("an array whose shape does not fit its data")
    try:
        import numpy
    except ImportError:
        return _nested(_items(dtype, data), shape)
    whole: Any = numpy.frombuffer(data, dtype) if len(data) else numpy.empty(0, dtype)
    return whole.reshape(shape)


def _items(dtype: str, data: bytes | bytearray | memoryview) -> Iterator[Any]:
    import struct

    order = ">" if dtype[0] == ">" else "<"
    return (item for (item,) in struct.iter_unpack(f"{order}{_CODES[dtype[1:]]}", data))


def _nested(items: Iterator[Any], shape: list[int]) -> list[Any]:
    if len(shape) == 1:
        return [next(items) for _ in range(shape[0])]
    return [_nested(items, shape[1:]) for _ in range(shape[0])]
