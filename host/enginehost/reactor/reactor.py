"""The base class of reactors, and how a call runs one."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

from enginehost.reactor.answers import awaited, plain, settled
from enginehost.reactor.finding import find_reactor
from enginehost.reactor.keys import Key, description, read_keys
from enginehost.reactor.nouns import NounMetadata
from enginehost.reactor.reading import Reading
from enginehost.reactor.rows import GenRowStruct, NounStore

POSITIONAL = "all"
"""The noun whose values are given by position, as in SEMOSS."""


class MissingNouns(ValueError):
    """Required nouns were not given; the message lists all of them."""


class Reactor(Reading):
    """Takes nouns, executes, gives a noun or a plain value.

    ``keys_to_get`` are the names of its nouns (``"name,alias"`` has an alias), ``key_required`` a 0 or 1
    for each (left out: callers must give all), ``key_multi`` a 1 for each of which there may be several,
    ``key_types`` and ``key_descriptions`` say more of them to callers. Subclasses write ``execute`` as
    ``def``, ``async def`` or a generator of either kind; the nouns are in ``store`` and, organised, in
    ``key_value``.
    """

    keys_to_get: Sequence[str] = ()
    key_required: Sequence[int] = ()
    key_multi: Sequence[int] = ()
    key_types: Mapping[str, Any] = {}
    """For each key a type: ``int``, ``"list[str]"``, or a JSON Schema; without one, any value fits."""
    key_descriptions: Mapping[str, str] = {}

    store: NounStore
    """All nouns of this call by name."""
    current_row: GenRowStruct
    """The nouns that were given by position."""
    key_value: dict[str, Any]
    """The value of each key that was given: one value, or a list where a collection was given."""
    parent_reactor: Reactor | None
    """The reactor that runs this one, where one does."""
    child_reactors: list[Reactor]
    """Those that this one has run."""

    def __new__(cls, *_arguments: Any, **_options: Any) -> Self:
        """An instance with an empty store, whether or not its ``__init__`` calls this class's."""
        made = super().__new__(cls)
        made.parent_reactor, made.child_reactors = None, []
        made.set_noun_store(NounStore())
        return made

    def execute(self) -> Any:
        """Do the work. May be written ``execute(self, store, row)``, as SEMOSS's reactor functions are."""
        raise NotImplementedError(f"{type(self).__name__} must define execute(self)")

    # Nouns

    def set_noun_store(self, store: NounStore) -> None:
        """Take the nouns of this call."""
        self.store = store
        self.current_row = store[POSITIONAL]
        self.key_value = {}

    def get_noun_store(self) -> NounStore:
        """The nouns of this call."""
        return self.store

    def organize_keys(
        self, store: NounStore | None = None, row: GenRowStruct | None = None
    ) -> dict[str, Any]:
        """Fill ``key_value``: named nouns first, then those without a name in the order of the keys.

        Raises :class:`MissingNouns`. It has run before ``execute``; calling it again does no harm.
        ``store`` and ``row`` in place of the call's.
        """
        named = self.store if store is None else store
        positional = list(named[POSITIONAL] if row is None else row)
        keys = keys_of(self)
        self.key_value = {}
        for key in keys:
            name = next((name for name in (key.name, *key.aliases) if name in named), None)
            if name is not None:
                value = named[name].value()
            elif positional:
                value = positional.pop(0).value
            else:
                continue
            self.key_value[key.name] = [value] if key.several and not isinstance(value, list) else value
        missing = ["/".join((key.name, *key.aliases)) for key in keys if self._lacks(key)]
        if missing:
            raise MissingNouns(f"must define {', '.join(missing)}")
        return self.key_value

    def _lacks(self, key: Key) -> bool:
        return key.required and key.name not in self.key_value

    def get_nouns(self, key: str | int) -> list[Any]:
        """The values of ``key``, also where only one was given."""
        name = keys_of(self)[key].name if isinstance(key, int) else key
        if name in self.store:
            return self.store[name].values()
        value = self.key_value.get(name)
        return list(value) if isinstance(value, list) else [value] if name in self.key_value else []

    # Other reactors, and the log

    def run_reactor(
        self, reactor: type[Reactor] | str, nouns: Mapping[str, Any] | None = None, *positional: Any
    ) -> NounMetadata:
        """Run another reactor on these nouns and give its answer as a noun.

        ``reactor`` is a class, its name (also without ``Reactor``), or a dotted path. Raises
        :class:`ReactorFailed` where it answers with an error, ``LookupError`` where there is none.
        """
        child = self._child(reactor, nouns, positional)
        return settled(_execute(child), type(child).__name__)

    async def await_reactor(
        self, reactor: type[Reactor] | str, nouns: Mapping[str, Any] | None = None, *positional: Any
    ) -> NounMetadata:
        """:meth:`run_reactor` for an ``async def execute``."""
        child = self._child(reactor, nouns, positional)
        return await awaited(_execute(child), type(child).__name__)

    def _child(
        self, reactor: type[Reactor] | str, nouns: Mapping[str, Any] | None, positional: Sequence[Any]
    ) -> Reactor:
        found = find_reactor(reactor, type(self), Reactor) if isinstance(reactor, str) else reactor
        child, store = _new(found), NounStore.of(nouns or {})
        for value in positional:
            store.make_noun(POSITIONAL).append(NounMetadata(value))
        child.set_noun_store(store)
        child.parent_reactor = self
        self.child_reactors.append(child)
        return child

    def get_logger(self, name: str = "") -> logging.Logger:
        """A logger; ``LOGGER_LEVEL`` in the file says from which level on the host's log has it."""
        return logging.getLogger(name or type(self).__name__)

    # What it says of itself

    def get_reactor_description(self) -> str:
        """What it does, for people and models: its docstring."""
        return inspect.cleandoc(type(self).__doc__ or "")

    def get_description_for_key(self, key: str) -> str | None:
        """What a key means."""
        return self.key_descriptions.get(key)

    def get_key_type(self, key: str) -> Any:
        """The type of a key, as in ``key_types``; ``None`` where nothing is said."""
        return self.key_types.get(key)

    def get_response_schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the answer."""
        return None

    def curNoun(self, name: str) -> None:  # noqa: N802 - SEMOSS's name
        """Make the row of ``name`` and let ``current_row`` be it."""
        self.current_row = self.store.make_noun(name)

    def In(self) -> None:  # noqa: N802 - SEMOSS's name
        """Make the row of nouns by position and let ``current_row`` be it."""
        self.curNoun(POSITIONAL)

    setNounStore = set_noun_store  # noqa: N815 - SEMOSS's names, to the end
    getNounStore = get_noun_store  # noqa: N815
    organizeKeys = organize_keys  # noqa: N815
    getLogger = get_logger  # noqa: N815
    getReactorDescription = get_reactor_description  # noqa: N815
    getDescriptionForKey = get_description_for_key  # noqa: N815
    getKeyTypeForMCP = get_key_type  # noqa: N815
    getResponseSchema = get_response_schema  # noqa: N815

    @property
    def keyValue(self) -> dict[str, Any]:  # noqa: N802
        """SEMOSS's name of ``key_value``."""
        return self.key_value

    @property
    def curRow(self) -> GenRowStruct:  # noqa: N802
        """SEMOSS's name of ``current_row``."""
        return self.current_row

    def getCurRow(self) -> GenRowStruct:  # noqa: N802
        """The nouns that were given by position."""
        return self.current_row

    def getParentReactor(self) -> Reactor | None:  # noqa: N802
        """The reactor that runs this one."""
        return self.parent_reactor

    def getChildReactors(self) -> list[Reactor]:  # noqa: N802
        """Those that this one has run."""
        return self.child_reactors


def keys_of(reactor: Reactor) -> list[Key]:
    """The keys of a reactor, in either spelling."""
    marks = [_declared(reactor, name, other) or None for name, other in _MARKS]
    return read_keys(_declared(reactor, "keys_to_get", "keysToGet"), *marks)


_MARKS = (("key_required", "keyRequired"), ("key_multi", "keyMulti"))


def _declared(reactor: Reactor, name: str, semoss: str) -> Any:
    return getattr(reactor, semoss, None) or getattr(reactor, name)


def describe(reactor: type[Any]) -> dict[str, Any]:
    """``{"keys", "required", "schemas", "doc", "result"}`` of a reactor class.

    ``schemas`` has a JSON Schema for each key, ``result`` that of the answer, or ``None``. Raises
    ``ValueError`` for a type that is none.
    """
    instance = _new(reactor)
    marked = bool(_declared(instance, "key_required", "keyRequired"))
    type_of = _method(instance, "get_key_type", "getKeyTypeForMCP")
    text_of = _method(instance, "get_description_for_key", "getDescriptionForKey")
    doc = _method(instance, "get_reactor_description", "getReactorDescription")()
    result = _method(instance, "get_response_schema", "getResponseSchema")()
    return description(keys_of(instance), marked, type_of, text_of, doc or "", result)


def _method(instance: Reactor, name: str, semoss: str) -> Any:
    """The method in the spelling in which the author has written one."""
    written = getattr(type(instance), semoss) is not getattr(Reactor, semoss)
    return getattr(instance, semoss if written else name)


def run(reactor: type[Any], arguments: Mapping[str, Any]) -> Any:
    """Execute a new instance on the arguments; its plain value, or an awaitable or generator of such.

    Raises :class:`ReactorFailed` where it answers with an ERROR noun. Warnings go to the log.
    """
    instance = _new(reactor)
    instance.set_noun_store(NounStore.of(arguments))
    return plain(_execute(instance), type(instance).__name__)


def _execute(instance: Reactor) -> Any:
    instance.organize_keys()
    if _takes_nouns(type(instance).execute):
        execute: Any = instance.execute
        return execute(instance.store, instance.current_row)
    return instance.execute()


@lru_cache(256)
def _takes_nouns(execute: Any) -> bool:
    taken = inspect.signature(execute).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in positional for one in taken) >= 3


def _new(reactor: type[Any]) -> Reactor:
    if not issubclass(reactor, Reactor):
        raise TypeError(f"{reactor.__name__} is no Reactor; derive it from enginehost.reactor.Reactor")
    return reactor()
