"""What others offer on the databus, in the catalog: found, kept fresh, and taken out when it goes.

Functions are called ``service.name``, and by ``name`` where that was free when they were first seen. Several
providers of one function of one shape are its replicas. A local name never changes because of a remote one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

from enginehost.catalog import OTHERS, Catalog, EngineRecord
from enginehost.databus.aliases import Aliases
from enginehost.databus.capability import says_public
from enginehost.databus.metadata import partition_of
from enginehost.databus.offers import Offer, understand
from enginehost.databus.port import DEFAULT_PARTITION, Capability, Sighting
from enginehost.databus.remote import RemoteFunction
from enginehost.databus.replicas import Provider, Replica
from enginehost.databus.requester import Requester
from enginehost.engine import EngineState, Function
from enginehost.errors import Unauthorized

log = logging.getLogger("enginehost.databus")

KIND = OTHERS
"""The kind of the engines that stand for other hosts' services."""

CONFIRM_SECONDS = 3.0
"""After the reader was made anew: what is not seen again until then has gone."""

MOST_OFFERS = 200_000
MOST_TOLD = 1_000
MOST_FAULTS = 100
"""Capabilities that are of no use and are told of."""

Vet = Callable[[Capability], "Signer"]
"""Whose signature a capability has. Raises ``Unauthorized`` with the reason where it may not be let in."""
LetIn = Callable[[Offer], bool]
"""Whether an offer passes the filters of the settings."""
Conflict = Callable[[Offer, str], None]
"""Hears of what another incarnation offers, in which participant, under our own host id."""
Complete = Callable[[Offer, Provider], None]
"""Asks a provider for the schema that its capability has no room for."""


@dataclass(frozen=True, slots=True)
class Signer:
    """The trusted key with which something is signed; empty where it is not."""

    name: str = ""
    key: str = ""


@dataclass(slots=True, eq=False)
class _Placed:
    """One capability where it stands."""

    offer: Offer
    provider: Provider
    seen: int
    form: tuple[bool, str] | None = None
    replica: Replica | None = None


@dataclass(slots=True, eq=False)
class _Group:
    """All that is offered under one service and name, by form: whether it is signed, and its shape."""

    forms: dict[tuple[bool, str], RemoteFunction] = field(default_factory=dict)
    served: tuple[bool, str] | None = None


@dataclass(slots=True)
class _Batch:
    """Changes of the catalog that are made in one step."""

    added: dict[str, dict[str, Function]] = field(default_factory=dict)
    gone: dict[str, set[str]] = field(default_factory=dict)
    ids: dict[str, None] = field(default_factory=dict)
    """Functions, by their ids, that can be called now, or cannot any more."""

    def add(self, service: str, function: Function) -> None:
        self.gone.setdefault(service, set()).discard(function.signature.name)
        self.added.setdefault(service, {})[function.signature.name] = function

    def drop(self, service: str, name: str) -> None:
        self.added.setdefault(service, {}).pop(name, None)
        self.gone.setdefault(service, set()).add(name)


class Directory:
    """Follows the capabilities of other hosts. Lives on one event loop.

    ``host_id`` and ``incarnation`` are this program's own, whose capabilities are passed over.
    """

    def __init__(
        self,
        catalog: Catalog,
        requester: Requester,
        aliases: Aliases,
        *,
        own: Callable[[], tuple[str, str]],
        vet: Vet = lambda _: Signer(),
        let_in: LetIn = lambda _: True,
        conflict: Conflict = lambda *_: None,
        complete: Complete = lambda *_: None,
        changed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.faults: dict[str, str] = {}
        """What is wrong with capabilities that are of no use, by function id; the latest hundred."""
        self._catalog = catalog
        self._requester = requester
        self._aliases = aliases
        self._own = own
        self._told: set[tuple[str, str]] = set()
        """What was said of whom: a host offers many functions with one fault."""
        self._vet = vet
        self._let_in = let_in
        self._conflict = conflict
        self._complete = complete
        self._changed = changed
        self._placed: dict[str, _Placed] = {}
        self._groups: dict[tuple[str, str], _Group] = {}
        self._providers: dict[tuple[str, str], Provider] = {}
        self._remotes: WeakValueDictionary[tuple[str, str, bool, str], RemoteFunction] = WeakValueDictionary()
        self._lost: WeakValueDictionary[tuple[str, str], Provider] = WeakValueDictionary()
        """All that there were, as long as some call or replica refers to them."""
        self._records: dict[str, EngineRecord] = {}
        self._served: dict[str, set[str]] = {}
        """Names of functions in the catalog, by service."""
        self._round = 0
        self._confirm: asyncio.TimerHandle | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._last_seen = 0.0
        self._closed = False

    def __len__(self) -> int:
        """Capabilities of others that are there now."""
        return len(self._placed)

    def provider_of(self, function_id: str) -> Provider | None:
        """Who offers a function; ``None`` where it cannot be called."""
        placed = self._placed.get(function_id)
        return placed.provider if placed is not None and placed.replica is not None else None

    def is_public(self, function_id: str) -> bool:
        """Whether its provider says that anybody may call it."""
        placed = self._placed.get(function_id)
        return placed is not None and says_public(placed.offer.capability)

    def remote_of(self, function_id: str) -> RemoteFunction | None:
        """What runs a function; ``None`` where it cannot be called."""
        placed = self._placed.get(function_id)
        if placed is None or placed.form is None:
            return None
        return self._groups[placed.offer.service, placed.offer.capability.name].forms[placed.form]

    @property
    def providers(self) -> Sequence[Provider]:
        """Programs that offer functions now."""
        return tuple(self._providers.values())

    @property
    def quiet_since(self) -> float:
        """When something was seen for the last time (the loop's clock); 0 where nothing ever was."""
        return self._last_seen

    # What the transport tells

    def seen(self, sightings: Sequence[Sighting]) -> None:
        """See :class:`~enginehost.databus.port.Watcher`."""
        if self._closed:
            return
        self._last_seen = asyncio.get_running_loop().time()
        batch = _Batch()
        for one in sightings:
            if one.capability is None:
                self._went(one, batch)
            else:
                self._came(one.capability, one.participant, batch)
        self._settle(batch)

    def anew(self) -> None:
        """See :class:`~enginehost.databus.port.Watcher`."""
        self._round += 1
        if self._confirm is not None:
            self._confirm.cancel()
        loop = asyncio.get_running_loop()
        self._confirm = loop.call_later(CONFIRM_SECONDS, self._confirmed, self._round)

    def close(self) -> None:
        """Hear nothing any more; the catalog keeps what it has (the host is closing)."""
        self._closed = True
        if self._confirm is not None:
            self._confirm.cancel()
        for task in self._asking:
            task.cancel()
        self._aliases.close()

    def told(self, function_id: str, offer: Offer) -> None:
        """The provider has told the whole signature of what it offers."""
        placed = self._placed.get(function_id)
        if placed is None or placed.offer.capability is not offer.capability:
            return
        batch = _Batch()
        self._remove(placed, batch)
        placed.offer = offer
        self._place(placed, batch)
        self._settle(batch)

    # One capability

    def _came(self, capability: Capability, participant: str, batch: _Batch) -> None:
        offer = understand(capability)
        host_id, incarnation = self._own()
        if capability.provider_id == host_id:
            if offer.incarnation not in ("", incarnation):
                self._conflict(offer, participant)
            return
        signer = self._vetted(offer)
        known = self._placed.get(capability.function_id)
        if known is not None:
            if signer is not None and _stays(known, offer, participant, signer):
                before, known.seen = known.offer, self._round
                known.offer = replace(offer, signature=before.signature, omitted=before.omitted)
                return
            self._forget(capability.function_id, batch)
        if signer is not None:
            self._enter(offer, participant, signer, batch)

    def _enter(self, offer: Offer, participant: str, signer: Signer, batch: _Batch) -> None:
        function_id = offer.capability.function_id
        if len(self._placed) >= MOST_OFFERS:
            self._fault(offer.capability, f"there are {MOST_OFFERS} capabilities already")
            return
        placed = _Placed(offer, self._provider(offer, participant, signer), self._round)
        self._placed[function_id] = placed
        if offer.omitted:
            self._complete(offer, placed.provider)
        if placed.provider.incarnation or placed.provider.reached:
            self._place(placed, batch)
        else:
            self._ask_whether_it_serves(placed)

    def _vetted(self, offer: Offer) -> Signer | None:
        """Whose offer it is; ``None`` where it is not let in."""
        if offer.fault:
            self._fault(offer.capability, offer.fault)
            return None
        try:
            signer = self._vet(offer.capability)
        except Unauthorized as reason:
            self._fault(offer.capability, reason.message)
            return None
        self.faults.pop(offer.capability.function_id, None)
        return signer if self._let_in(offer) else None

    def _provider(self, offer: Offer, participant: str, signer: Signer) -> Provider:
        key = participant, offer.incarnation
        provider = self._providers.get(key)
        if provider is None or provider.gone:
            provider = self._returned(key, signer) or self._new_provider(key, offer, signer)
            self._providers[key] = provider
        provider.offers += 1
        return provider

    def _returned(self, key: tuple[str, str], signer: Signer) -> Provider | None:
        """The one that was out of sight, while some call waits for it."""
        provider = self._lost.get(key)
        if provider is None or not provider.exchanges or not provider.incarnation:
            return None
        if (provider.signer, provider.key) != (signer.name, signer.key):
            return None
        provider.gone = provider.reached = False
        provider.offers = 0
        return provider

    def _new_provider(self, key: tuple[str, str], offer: Offer, signer: Signer) -> Provider:
        participant, incarnation = key
        partition = partition_of(incarnation) if incarnation else DEFAULT_PARTITION
        host_id = offer.capability.provider_id
        provider = Provider(participant, host_id, incarnation, partition, signer.name, signer.key)
        self._lost[key] = provider
        return provider

    def _went(self, sighting: Sighting, batch: _Batch) -> None:
        self.faults.pop(sighting.function_id, None)
        placed = self._placed.get(sighting.function_id)
        if placed is None or (sighting.participant and sighting.participant != placed.provider.participant):
            return
        if sighting.lost:
            self._requester.gone(placed.provider)
        self._forget(sighting.function_id, batch)

    def _forget(self, function_id: str, batch: _Batch) -> None:
        placed = self._placed.pop(function_id)
        self._remove(placed, batch)
        provider = placed.provider
        provider.offers -= 1
        if not provider.offers:
            key = provider.participant, provider.incarnation
            if self._providers.get(key) is provider:
                del self._providers[key]
            if not provider.exchanges:
                self._requester.gone(provider)

    def _confirmed(self, round_number: int) -> None:
        batch = _Batch()
        for function_id in [id for id, placed in self._placed.items() if placed.seen < round_number]:
            self._requester.gone(self._placed[function_id].provider)
            self._forget(function_id, batch)
        self._settle(batch)

    def _fault(self, capability: Capability, fault: str) -> None:
        told = capability.provider_id[:100], fault
        if told not in self._told:
            log.warning(
                "capabilities on the databus are of no use, such as %.100r of %.100r: %s",
                capability.name,
                capability.provider_id,
                fault,
            )
            if len(self._told) >= MOST_TOLD:
                self._told.clear()
            self._told.add(told)
        self.faults[capability.function_id] = fault
        if len(self.faults) > MOST_FAULTS:
            del self.faults[next(iter(self.faults))]

    # Programs that know only the types

    def _ask_whether_it_serves(self, placed: _Placed) -> None:
        """Genesis's own capabilities are called in another way: only who reads requests is called here."""

        async def ask() -> None:
            if await self._requester.reaches(placed.provider):
                batch = _Batch()
                if self._placed.get(placed.offer.capability.function_id) is placed:
                    self._place(placed, batch)
                self._settle(batch)

        task = asyncio.get_running_loop().create_task(ask())
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    # Functions and their replicas

    def _place(self, placed: _Placed, batch: _Batch) -> None:
        offer, provider = placed.offer, placed.provider
        key = offer.service, offer.capability.name
        group = self._groups.setdefault(key, _Group())
        form = placed.form = (provider.signer != "", offer.shape)
        remote = group.forms.get(form)
        if remote is None:
            remote = group.forms[form] = self._remote((*key, *form), offer)
        placed.replica = Replica(offer.capability.function_id, provider)
        batch.ids[offer.capability.function_id] = None
        remote.replicas.append(placed.replica)
        if group.served is None or (form[0] and not group.served[0]):
            self._serve(key, group, form, batch)

    def _remote(self, key: tuple[str, str, bool, str], offer: Offer) -> RemoteFunction:
        """What runs the function; the same again, where a call still waits for one that has vanished."""
        remote = self._remotes.get(key)
        if remote is None or remote.signature != offer.signature:
            remote = self._remotes[key] = RemoteFunction(self._requester, offer.signature)
        return remote

    def _remove(self, placed: _Placed, batch: _Batch) -> None:
        if placed.form is None or placed.replica is None:
            return
        batch.ids[placed.offer.capability.function_id] = None
        key = placed.offer.service, placed.offer.capability.name
        group = self._groups[key]
        remote = group.forms[placed.form]
        remote.replicas.remove(placed.replica)
        if not remote.replicas:
            del group.forms[placed.form]
            if group.served == placed.form:
                self._serve_another(key, group, batch)
        placed.form = placed.replica = None

    def _serve_another(self, key: tuple[str, str], group: _Group, batch: _Batch) -> None:
        group.served = None
        if group.forms:
            self._serve(key, group, max(group.forms, key=lambda form: form[0]), batch)
        else:
            del self._groups[key]
            batch.drop(key[0], f"{key[0]}.{key[1]}")

    def _serve(self, key: tuple[str, str], group: _Group, form: tuple[bool, str], batch: _Batch) -> None:
        group.served = form
        function = group.forms[form].function
        batch.add(key[0], function)
        if self._aliases.claim(key[1], function.signature.name, self._free):
            self._catalog.alias(key[1], function.signature.name)
        elif (holder := self._aliases.holder(key[1])) is not None:
            self._catalog.alias(key[1], holder)  # so that the error for it can say so

    def _free(self, name: str) -> bool:
        return self._catalog.get(name) is None and not self._catalog.declaring(name)

    def _settle(self, batch: _Batch) -> None:
        for service in batch.added.keys() | batch.gone.keys():
            added, served = batch.added.get(service, {}), self._served.setdefault(service, set())
            gone = (batch.gone.get(service, set()) & served) - added.keys()
            record = self._records.get(service)
            if record is None:
                record = self._records[service] = EngineRecord(
                    f"databus:{service}", KIND, display_name=service, state=EngineState.READY
                )
            self._catalog.amend(record, added.values(), gone)
            served.update(added)
            served.difference_update(gone)
            if not served:
                self._catalog.remove(record.engine_id)
                del self._records[service], self._served[service]
        for function_id in batch.ids:
            self._changed(function_id)


def _stays(known: _Placed, offer: Offer, participant: str, signer: Signer) -> bool:
    """Whether nothing but measurements, the time and the signature has changed."""
    provider, before = known.provider, known.offer
    return (
        provider.participant == participant
        and not provider.gone
        and (provider.signer, provider.key) == (signer.name, signer.key)
        and (before.shape, before.incarnation) == (offer.shape, offer.incarnation)
        and (before.signature == offer.signature or (offer.omitted and not before.omitted))
    )
