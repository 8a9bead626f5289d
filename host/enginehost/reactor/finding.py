"""Finding a reactor by the name that another one calls it by."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterator
from typing import Any


class UnknownReactor(LookupError):
    """No reactor has this name, or several have; the message lists those that there are."""

    def __str__(self) -> str:
        return str(self.args[0])  # not its repr, as of a key


def find_reactor(name: str, asking: type[Any], root: type[Any]) -> type[Any]:
    """The class ``name`` as ``asking`` knows it: a dotted path, or its name, with or without ``Reactor``.

    A name is looked for in the module of ``asking``, then among all subclasses of ``root`` that are loaded.
    Raises :class:`UnknownReactor`, and what importing its module raises.
    """
    if "." in name or ":" in name:
        return _imported(name, root)
    module = vars(sys.modules[asking.__module__])
    for spelling in (name, f"{name}Reactor"):
        found = module.get(spelling)
        if isinstance(found, type) and issubclass(found, root):
            return found
    loaded = list(_subclasses(root))
    matches = [one for one in loaded if one.__name__ in (name, f"{name}Reactor")]
    if len(matches) == 1:
        return matches[0]
    if matches:
        paths = ", ".join(sorted(f"{one.__module__}:{one.__qualname__}" for one in matches))
        raise UnknownReactor(f"several reactors are named {name}: {paths}")
    near = difflib.get_close_matches(name, [one.__name__ for one in loaded], n=3, cutoff=0.4)
    hint = f"; did you mean {', '.join(near)}?" if near else ": write package.module.Class"
    raise UnknownReactor(f"there is no reactor {name}{hint}")


def _imported(path: str, root: type[Any]) -> type[Any]:
    module, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    found = getattr(importlib.import_module(module), name, None)
    if not (isinstance(found, type) and issubclass(found, root)):
        raise UnknownReactor(f"{module} has no reactor {name}")
    return found


def _subclasses(root: type[Any]) -> Iterator[type[Any]]:
    seen: dict[type[Any], None] = {}
    stack = root.__subclasses__()
    while stack:
        one = stack.pop()
        if one not in seen:
            seen[one] = None
            stack += one.__subclasses__()
    return iter(seen)
