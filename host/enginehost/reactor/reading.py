"""Reading nouns with the type that one expects, as reactors of SEMOSS do (``getString``, ``getInt``, …)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, TypeVar

_Value = TypeVar("_Value")


class Reading:
    """Reads the nouns of a key, named by its name or by its place among the keys.

    Named nouns count first, then those by position. Without one the answer is ``default``; a text is read
    as the type that is asked for. Raises ``ValueError`` where it does not write one.
    """

    def get_nouns(self, key: str | int) -> list[Any]:
        """The values of a key, also where only one was given."""
        raise NotImplementedError

    def get_string(self, key: str | int, default: str | None = None) -> str | None:
        """The first value as text."""
        return self._first(key, _text, default)

    def get_int(self, key: str | int, default: int | None = None) -> int | None:
        """The first value as an integer; a decimal loses its fraction."""
        return self._first(key, lambda value: int(_number(value, int)), default)

    def get_float(self, key: str | int, default: float | None = None) -> float | None:
        """The first value as a decimal."""
        return self._first(key, lambda value: float(_number(value, float)), default)

    def get_boolean(self, key: str | int, default: bool | None = None) -> bool | None:
        """The first value as a boolean: of texts, ``true`` in any case is true."""
        return self._first(key, lambda value: _text(value).lower() == "true", default)

    def get_map(self, key: str | int, default: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        """The first value that is an object."""
        return next((value for value in self.get_nouns(key) if isinstance(value, Mapping)), default)

    def get_list(self, key: str | int, default: list[Any] | None = None) -> list[Any] | None:
        """All values."""
        return self.get_nouns(key) or default

    def get_strings(self, key: str | int) -> list[str]:
        """All values as texts."""
        return list(map(_text, self.get_nouns(key)))

    def _first(self, key: str | int, read: Callable[[Any], _Value], default: _Value | None) -> _Value | None:
        values = self.get_nouns(key)
        if not values or values[0] is None:
            return default
        try:
            return read(values[0])
        except ValueError as error:
            raise ValueError(f"the noun {key}: {error}") from None

    # SEMOSS's names
    getString = get_string  # noqa: N815
    getInt = getLong = get_int  # noqa: N815
    getDouble = get_float  # noqa: N815
    getBoolean = get_boolean  # noqa: N815
    getMap = get_map  # noqa: N815
    getList = get_list  # noqa: N815
    getListString = getNounAsStringList = get_strings  # noqa: N815


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: Any, kind: type[int] | type[float]) -> Any:
    return value if isinstance(value, Real) else kind(str(value))
