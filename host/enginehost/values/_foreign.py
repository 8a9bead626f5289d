"""Dataclasses, named tuples, pydantic, numpy, pandas and polars, recognised without importing them."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

UNKNOWN: Any = object()
"""What :func:`unwrap` answers for a value it does not know."""


def unwrap(value: Any) -> Any:
    """A built-in value that means the same, or :data:`UNKNOWN`."""
    kind: Any = type(value)
    if isinstance(value, tuple):
        return kind._asdict(value) if hasattr(kind, "_fields") and hasattr(kind, "_asdict") else UNKNOWN
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__ if hasattr(value, name)}
    for base in kind.__mro__[:-1]:
        convert = _LIBRARIES.get(base.__module__.partition(".")[0])
        if convert is not None:
            return convert(value, base)
    return UNKNOWN


def _pydantic(value: Any, base: type) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True)
    return str(value)  # a URL, a masked secret, …


def _numpy(value: Any, base: type) -> Any:
    kind = value.dtype.kind
    if kind == "M":
        return _blank_not_a_time(value.astype(str).tolist())
    if kind == "m":
        return _durations(value.astype("timedelta64[us]").tolist())
    if kind == "V" and getattr(value.dtype, "names", None):
        return [_structure(row) for row in value.reshape(-1)] if value.shape else _structure(value)
    plain = value.tolist()
    if type(plain).__module__ == "numpy":  # a long double is its own item
        return float(plain) if kind == "f" else UNKNOWN
    return plain


def _structure(row: Any) -> dict[str, Any]:
    return {name: row[name] for name in row.dtype.names}


def _blank_not_a_time(value: Any) -> Any:
    if isinstance(value, list):
        return [_blank_not_a_time(item) for item in value]
    return None if value == "NaT" else value


def _durations(value: Any) -> Any:
    if isinstance(value, list):
        return [_durations(item) for item in value]
    return value if isinstance(value, timedelta) else None


def _pandas(value: Any, base: type) -> Any:
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        names = list(value.columns)
        columns = [_present(value.iloc[:, index].tolist()) for index in range(len(names))]
        return [dict(zip(names, row)) for row in zip(*columns)]  # noqa: B905 - Python 3.9 has no strict
    if hasattr(value, "tolist"):
        return _present(value.tolist())
    if _missing(value):
        return None
    if hasattr(value, "to_pytimedelta"):
        return value.to_pytimedelta()
    if hasattr(value, "to_pydatetime"):
        return value.isoformat() if value.nanosecond else value.to_pydatetime()
    return str(value)  # a period, an interval, …


def _polars(value: Any, base: type) -> Any:
    if hasattr(value, "collect_schema") and hasattr(value, "to_dicts"):
        columns = [_present(column.to_list()) for column in value.get_columns()]
        return [dict(zip(value.columns, row)) for row in zip(*columns)]  # noqa: B905 - Python 3.9 has no strict
    return _present(value.to_list()) if hasattr(value, "to_list") else UNKNOWN


def _present(column: list[Any]) -> list[Any]:
    return [None if _missing(cell) else cell for cell in column]


def _missing(cell: Any) -> bool:
    """Whether a cell of a frame holds nothing: NaN there means *missing*."""
    if isinstance(cell, float):
        return math.isnan(cell)
    return type(cell).__name__ in ("NaTType", "NAType")


_LIBRARIES = {"numpy": _numpy, "pandas": _pandas, "polars": _polars, "pydantic": _pydantic}
