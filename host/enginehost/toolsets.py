"""The catalog as tools: specs and face names, derived once per version of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from enginehost.catalog import Catalog, Entry
from enginehost.names import FaceNames, NameRule, name_rule
from enginehost.specs import spec_kinds, to_spec


class ToolSets:
    """Derives and keeps what faces show of the functions of ``catalog``."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._names: dict[NameRule, tuple[int, FaceNames]] = {}
        self._specs: dict[str, tuple[int, dict[str, dict[str, Any]]]] = {}

    def specs(self, kind: str, entries: Iterable[Entry]) -> list[dict[str, Any]]:
        """These functions as tools of one kind. Raises ``InvalidRequest`` for an unknown kind."""
        version, specs = self._specs.get(kind, (-1, {}))
        if version != self._catalog.version:
            specs = {}
        names = self.face_names(kind)
        found: list[dict[str, Any]] = []
        for entry in entries:
            spec = specs.get(entry.name)
            if spec is None:
                spec = specs[entry.name] = to_spec(entry.signature, kind, name=names.to_face(entry.name))
            found.append(spec)
        if found:  # so the kind exists
            self._specs[kind] = (self._catalog.version, specs)
        return found

    def face_names(self, kind: str) -> FaceNames:
        """The names of all functions on faces of ``kind``."""
        rule = name_rule(kind)
        version, names = self._names.get(rule, (-1, None))
        if names is None or version != self._catalog.version:
            catalog = self._catalog
            names = FaceNames((entry.name for entry in catalog), rule, catalog.short_names())
            self._names[rule] = (self._catalog.version, names)
        return names

    def resolve(self, name: str, kind: str | None, visible: Callable[[str], Entry | None]) -> str:
        """The function that a face shows as ``name``; see :meth:`enginehost.host.Host.resolve`."""
        if visible(name) is not None:
            return name
        for one in spec_kinds() if kind is None else (kind,):
            found = self.face_names(one).from_face(name)
            if found and found != name and visible(found) is not None:
                return found
        return name
