"""The names of functions and of their parameters, and which operations are wanted."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from fnmatch import fnmatchcase

LONGEST = 64
"""Characters of a name; every vendor's models take so many."""

_OTHER = re.compile(r"[^A-Za-z0-9_.-]+")
_NOT_IN_FUNCTIONS = re.compile(r"[^A-Za-z0-9_-]+")


def function_name(operation_id: str, method: str, path: str, prefix: str) -> str:
    """A name made of the ``operationId``, else of method and path."""
    name = _NOT_IN_FUNCTIONS.sub("_", operation_id).strip("_")
    if not name:
        words = re.sub(r"\{([^{}]*)\}", r"by_\1", path)
        name = f"{method.lower()}_{_NOT_IN_FUNCTIONS.sub('_', words).strip('_') or 'root'}"
    return f"{prefix}{name}"[:LONGEST]


def parameter_name(name: str) -> str:
    """A name that every vendor's models take for a member of an object."""
    return _OTHER.sub("_", name).strip("_")[:LONGEST] or "value"


def free_name(wanted: str, taken: Container[str]) -> str:
    """``wanted``, or the first of it with a number that is free; compared without case."""
    name, number = wanted, 1
    while name.casefold() in taken:
        number += 1
        end = f"_{number}"
        name = wanted[: LONGEST - len(end)] + end
    return name


def is_wanted(
    names: Iterable[str],
    method: str,
    path: str,
    tags: Iterable[str],
    include: Iterable[str],
    exclude: Iterable[str],
) -> bool:
    """Whether an operation is asked for.

    A pattern (``*``, ``?``, ``[…]``) is compared with the ``names`` (with and without prefix), the path
    (where it begins with ``/``), method and path (``GET /pets*``), or one of the tags (``tag:store``).
    """
    subjects = (*names, path, f"{method} {path}", *(f"tag:{tag}" for tag in tags))

    def matches(patterns: Iterable[str]) -> bool:
        return any(fnmatchcase(subject, pattern) for pattern in patterns for subject in subjects)

    include = tuple(include)
    return (not include or matches(include)) and not matches(exclude)
