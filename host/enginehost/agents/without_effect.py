"""What stands in an agent's file or class and does nothing: told, since somebody meant something by it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping

_NOT_AN_AGENTS = ("FUNCTION_PARAMETERS", "FUNCTION_REQUIRED_PARAMETERS", "FUNCTION_RESULT")
_ALIKE = 0.8


def keys_without_effect(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Keys of the file that any other function would heed, each with a sentence."""
    for key in _NOT_AN_AGENTS:
        if key in properties:
            text = f"{key} has no effect: an agent takes message and conversation_id, and gives a text"
            yield key, text


def attributes_without_effect(cls: type, base: type, names: Collection[str]) -> Iterator[str]:
    """Attributes of a class below ``base`` that are nearly one of ``names``, each as a sentence."""
    for one in cls.__mro__:
        if one in base.__mro__:
            continue
        for name, value in vars(one).items():
            if name in names or name.startswith("_") or hasattr(base, name) or hasattr(value, "__get__"):
                continue
            near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=_ALIKE)
            if near:
                yield f"{one.__name__}.{name} has no effect; did you mean {near[0]}?"
