"""A value against a JSON Schema 2020-12 in a bounded number of steps: does it fit, and where does it not?

The compiled check (jsonschema-rs) is far faster, and for a few schemas it takes for ever: those that refer
to themselves and ask what is *unevaluated*, and each that is to say *why* a value fits no branch of an
``anyOf`` which refers to itself. Here each part of the value is judged once by each part of the schema,
however many ways lead there. Parts of the schema that refer to nothing are left to the compiled check.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from enginehost.schema_keywords import EACH, WHOLE, Path, beside, looked_at
from enginehost.schema_references import LEAVES, has_ids, referred, refers, steps_of

_T = TypeVar("_T")

_RUN = 1000
"""Neighbours that the compiled check looks at in one go."""
_LOOK_EVERY = 16
"""Steps between two looks at the clock."""


class TooMuch(Exception):
    """The budget is used up, or the interpreter's stack is, before anything is known."""


class Budget:
    """So many steps, and so many seconds of a processor, whichever ends first."""

    __slots__ = ("_until", "steps")

    def __init__(self, steps: int, seconds: float) -> None:
        self.steps = steps
        self._until = time.thread_time() + seconds

    def take(self) -> None:
        """Take one step, or raise :class:`TooMuch`."""
        self.steps -= 1
        if self.steps < 0 or (self.steps % _LOOK_EVERY == 0 and time.thread_time() > self._until):
            raise TooMuch


@dataclass(frozen=True, slots=True)
class Fault:
    """One keyword of the schema (``""``: the schema ``false``) that a part of the value does not fit.

    ``path`` leads to the part, ``rule`` to the keyword in the whole schema, ``wanted`` is what it says.
    """

    path: Path
    rule: Path
    keyword: str
    wanted: Any
    value: Any
    schema: Any


class Walk:
    """One value against the schema ``root``, within ``budget``. Both stay as they are meanwhile."""

    def __init__(self, root: Mapping[str, Any], budget: Budget) -> None:
        self._root = root
        self._budget = budget
        self._verdicts: dict[tuple[int, int], bool] = {}
        self._made: dict[tuple[int, str], Any] = {}
        self._told: set[tuple[int, int, Path]] = set()
        self._evaluated: dict[tuple[int, int], frozenset[Any]] = {}

    def fits(self, value: Any) -> bool:
        """Whether the value fits. Raises :class:`TooMuch`."""
        try:
            return self.fit(self._root, value)
        except RecursionError:
            raise TooMuch from None

    def faults(self, value: Any) -> Iterator[Fault]:
        """What does not fit, in the order of the schema. Raises :class:`TooMuch`."""
        try:
            yield from self._faults(self._root, value, (), ())
        except RecursionError:
            raise TooMuch from None

    def fit(self, schema: Any, value: Any) -> bool:
        """Whether a part of the value fits a part of the schema. One function: it calls itself deeply."""
        if not isinstance(schema, Mapping):
            return schema is not False
        pair = id(schema), id(value)
        if pair in self._verdicts:
            return self._verdicts[pair]
        self._budget.take()
        self._verdicts[pair] = True  # meanwhile: what asks only for itself asks for nothing
        check, alone = self._once(schema, "check", lambda: _own_check(schema))
        verdict: bool = check(value)
        for keyword, wanted in () if alone or not verdict else schema.items():
            if keyword in WHOLE:
                verdict = WHOLE[keyword](self, wanted, value, schema)
            if verdict and keyword in EACH:
                for sub, child, _, _ in EACH[keyword](self, wanted, value, schema):
                    if not self.fit(sub, child):
                        verdict = False
                        break
            if not verdict:
                break
        self._verdicts[pair] = verdict
        return verdict

    def _faults(self, schema: Any, value: Any, path: Path, rule: Path) -> Iterator[Fault]:
        if schema is False:
            yield Fault(path, rule, "", schema, value, schema)
        entered = id(schema), id(value), path
        if not isinstance(schema, Mapping) or entered in self._told:
            return
        self._budget.take()
        self._told.add(entered)
        found = False
        for keyword, wanted in sorted(schema.items(), key=lambda item: item[0].startswith("unevaluated")):
            at = (*rule, keyword)
            if found and keyword.startswith("unevaluated"):
                break  # what does not fit has looked at nothing
            if keyword in LEAVES:
                if not self._once(schema, keyword, lambda k=keyword, w=wanted: _check({k: w}))(value):
                    found = True
                    asked = _missing(wanted, value) if keyword == "required" else (wanted,)
                    yield from (Fault(path, at, keyword, one, value, schema) for one in asked)
            elif keyword in WHOLE and not WHOLE[keyword](self, wanted, value, schema):
                found = True
                yield Fault(path, at, keyword, wanted, value, schema)
            elif keyword in EACH:
                for sub, child, further, inner in EACH[keyword](self, wanted, value, schema):
                    if not self.fit(sub, child):
                        found = True
                        there = steps_of(wanted) if keyword == "$ref" else (*rule, *inner)
                        yield from self._faults(sub, child, (*path, *further), there)

    def _once(self, schema: Any, what: str, make: Callable[[], _T]) -> _T:
        key = id(schema), what
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def target(self, reference: str) -> Any:
        """The schema that a reference means."""
        if self._once(self._root, "has ids", lambda: has_ids(self._root)):
            raise TooMuch
        return self._once(self._root, reference, lambda: referred(self._root, reference))

    def suspects(self, sub: Any, children: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """The children, each with its key, that may not fit ``sub``: runs of such that do are passed by."""
        check = self._once(sub, "many", lambda: None if refers(sub) else _check({"items": sub}))
        waiting = iter(children)
        while run := list(islice(waiting, _RUN)):
            self._budget.take()
            if check is None or not check([child for _, child in run]):
                yield from run

    def matches(self, pattern: str, name: str) -> bool:
        """Whether a name is one of a pattern's, in a time that grows evenly with its length."""
        return self._once(self._root, f"pattern {pattern}", lambda: _check({"pattern": pattern}))(name)

    def others(self, value: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
        """The names that ``additionalProperties`` speaks of."""
        known, patterns = schema.get("properties") or (), tuple(schema.get("patternProperties") or ())
        for name in value:
            if name not in known and not any(self.matches(pattern, name) for pattern in patterns):
                yield name

    def unevaluated(self, value: Any, schema: Mapping[str, Any]) -> list[Any]:
        """The names, or the indexes, that nothing in the schema looks at but its own ``unevaluated…``."""
        others = self._looked_at(schema, value, own=False)
        return [key for key in _keys_of(value) if key not in others]

    def _looked_at(self, schema: Any, value: Any, *, own: bool = True) -> frozenset[Any]:
        if not isinstance(schema, Mapping):
            return frozenset()
        if own and ("unevaluatedProperties" if isinstance(value, dict) else "unevaluatedItems") in schema:
            return frozenset(_keys_of(value))
        key = id(schema), id(value)
        if key not in self._evaluated:
            self._budget.take()
            self._evaluated[key] = frozenset()  # meanwhile
            found = set(looked_at(self, schema, value))
            for sub in beside(self, schema, value):
                found |= self._looked_at(sub, value)
            self._evaluated[key] = frozenset(found)
        return self._evaluated[key]


def _check(schema: Any) -> Callable[[Any], bool]:
    """The compiled check of a schema that refers to nothing."""
    from jsonschema_rs import Draft202012Validator

    compiled = Draft202012Validator(schema, validate_formats=True, offline=True)

    def check(value: Any) -> bool:
        try:
            return compiled.is_valid(value)
        except ValueError:  # a type that JSON does not have
            return False

    return check


def _own_check(schema: Mapping[str, Any]) -> tuple[Callable[[Any], bool], bool]:
    """The compiled check of what a schema itself asks for, and whether that is all."""
    if not refers(schema):
        return _check(dict(schema)), True
    return _check({keyword: wanted for keyword, wanted in schema.items() if keyword in LEAVES}), False


def _missing(wanted: Iterable[str], value: Mapping[str, Any]) -> Iterator[str]:
    return (name for name in wanted if name not in value)


def _keys_of(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value
    return range(len(value)) if isinstance(value, list) else ()
