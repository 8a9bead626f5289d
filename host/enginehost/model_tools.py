"""One list of what a model may call now: functions of the host and of others, agents, and a program's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from enginehost.caller import LOCAL, Caller
from enginehost.engine import Function
from enginehost.errors import InvalidRequest
from enginehost.names import name_rule
from enginehost.narrowing import Embed
from enginehost.policy import CALL
from enginehost.signature import FunctionSignature
from enginehost.specs import to_spec

if TYPE_CHECKING:
    from enginehost.host import Host
    from enginehost.toolsets import ToolSets

Own = Function | FunctionSignature
"""A tool that is in no catalog: the program runs it itself."""


class ModelTools(list[dict[str, Any]]):
    """Specs of one kind, to be given to a model as they are.

    ``names`` are the functions' names by the names that the model knows.
    """

    def __init__(self, specs: Iterable[dict[str, Any]], names: Mapping[str, str]) -> None:
        super().__init__(specs)
        self.names = dict(names)

    def resolve(self, name: str) -> str:
        """The function that the model means by ``name``; ``name`` itself where the list has none of it."""
        return self.names.get(name, name)


async def tools_for_model(
    host: Host,
    sets: ToolSets,
    query: str,
    kind: str,
    *,
    caller: Caller,
    tags: Iterable[str],
    most: int | None,
    own: Iterable[Own],
    keep: Iterable[str],
    classifier: str | Embed,
) -> ModelTools:
    """See :meth:`enginehost.host.Host.tools_for_model`."""
    if most is not None and most < 0:
        raise InvalidRequest(f"most must be at least 0, not {most}")
    mine = {one.name: one for one in map(_signature, own)}
    allowed = _Allowed(host, caller, tags, mine)
    kept = [name for name in dict.fromkeys(keep) if allowed(name) is not None]
    room = None if most is None else max(0, most - len(mine) - len(kept))
    if query.strip():
        wanted = None if room is None else room + len(kept)
        ranked = await host.narrowing.rank(query, allowed, allowed.every, wanted, classifier)
    else:
        ranked = [one.name for one in allowed.every()]
    rest = [name for name in ranked if name not in kept][:room]
    names = host.face_names(kind)
    entries = [entry for name in (*kept, *rest) if (entry := host.catalog.get(name)) is not None]
    specs = sets.specs(kind, entries)
    faces = {names.to_face(entry.name): entry.name for entry in entries}
    own_specs: list[dict[str, Any]] = []
    for name, signature in mine.items():
        face = _own_face(host, kind, name, faces)
        faces[face] = name
        own_specs.append(to_spec(signature, kind, name=face))
    return ModelTools([*own_specs, *specs], faces)


class _Allowed:
    """Which functions of the catalog may be on the list."""

    def __init__(self, host: Host, caller: Caller, tags: Iterable[str], hidden: Mapping[str, object]) -> None:
        self._host, self._caller, self._hidden = host, caller, hidden
        self._tags = frozenset((tags,) if isinstance(tags, str) else tags)

    def __call__(self, name: str) -> FunctionSignature | None:
        """The signature of the function of exactly this name, where it may be."""
        entry = self._host.catalog.get(name)
        if entry is None or entry.name != name or name in self._hidden:
            return None
        signature = entry.signature
        if self._tags and self._tags.isdisjoint(signature.tags):
            return None
        if self._caller is LOCAL:
            return signature
        policy = self._host.policy
        may = policy.may_view(self._caller, signature) and policy.rights(self._caller, signature) & CALL
        return signature if may else None

    def every(self) -> list[FunctionSignature]:
        """All of them, by name."""
        return [entry.signature for entry in self._host.catalog if self(entry.name) is not None]


def _signature(own: Own) -> FunctionSignature:
    return own if isinstance(own, FunctionSignature) else own.signature


def _own_face(host: Host, kind: str, name: str, taken: Mapping[str, str]) -> str:
    """A name on the face that no function of the catalog has there, but for one that this one hides."""
    rule, catalog = name_rule(kind), host.face_names(kind)
    face, attempt = name if rule.fits(name) else rule.mapped(name), 0
    while face in taken or catalog.from_face(face) not in (None, name):
        attempt += 1
        face = rule.mapped(name, attempt)
    return face
