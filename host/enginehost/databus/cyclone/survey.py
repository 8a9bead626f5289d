"""What Cyclone sees of the bus: its builtin topics, and endpoints of our own such as a host has."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self

from cyclonedds._clayer import ddspy_take
from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsParticipant,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import DDSException, InstanceState, ReadCondition, WaitSet
from cyclonedds.domain import DomainParticipant
from cyclonedds.dynamic import get_types_for_typeid
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic

from enginehost.databus.config import DatabusConfig
from enginehost.databus.cyclone.announced import (
    endpoint_of,
    is_application,
    key_of,
    members_of_type,
    program_of,
    read,
)
from enginehost.databus.cyclone.domain import enter_domain, leave_domain, lost_peers
from enginehost.databus.cyclone.heard import Heard
from enginehost.databus.cyclone.intake import ANY
from enginehost.databus.cyclone.matches import matched
from enginehost.databus.cyclone.qos import CALL_WRITER, CAPABILITY_READER, reader_qos
from enginehost.databus.cyclone.reply_partition import user_data
from enginehost.databus.cyclone.wire import idl_type
from enginehost.databus.matching import Endpoint, mismatches
from enginehost.databus.metadata import partition_of
from enginehost.databus.sight import CAPABILITIES, REPLIES, REQUESTS, Clock, Program, Sight
from enginehost.databus.types import (
    CALLS,
    FUNCTION_CAPABILITY,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
)
from enginehost.errors import EngineUnavailable

QUIET_SECONDS = 0.3
"""With nothing new for so long, there is nothing more to come."""
LONGEST = 5
"""Times the patience that is asked for, while there is always something new."""
TICK_NS = 100_000_000
BATCH = 256
TYPE_PATIENCE_NS = 500_000_000
"""For a peer's answer to what members a type has."""
MOST_UNANSWERED = 8
"""Such questions; after that no more are asked."""
RENEW_SECONDS = 2.0
LONGEST_RENEWAL = 60.0
"""After how long to look again at what was lost; each time it takes twice as long, for all is sent anew."""

_CAPABILITY_READER = Qos(Policy.History.KeepLast(16), base=CAPABILITY_READER)
"""What a host asks for. Hosts that have one id would overwrite each other's, so there is room for some."""

_REPLY_READER = Qos(Policy.History.KeepLast(1), base=reader_qos(CALLS))
"""Replies are for others: the last one is enough, and nobody waits for us."""

# Without bounds, so that what breaks them is seen and not dropped by the library
_SEEN = replace(
    FUNCTION_CAPABILITY, members=tuple(replace(member, bound=0) for member in FUNCTION_CAPABILITY.members)
)


class Observer:
    """A participant that writes nothing, and what it has seen so far. For one thread.

    It has a writer of requests in the partitions of all hosts, by which they see a requester: each then makes
    a writer for its replies, and when it did so, by its own clock, says how far that clock is off ours.

    Raises :class:`EngineUnavailable`, with the reason, where the bus cannot be joined.
    """

    def __init__(self, config: DatabusConfig) -> None:
        enter_domain(config)
        self._domain = config.domain
        self._programs: dict[str, Program] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._writers: dict[int, str] = {}
        self._born_for_us: dict[str, float] = {}
        self._type_ids: dict[str, Any] = {}
        self._types: dict[str, tuple[tuple[tuple[str, str], ...], str]] = {}
        self._unanswered = 0
        self._partition = partition_of(uuid.uuid4().hex)
        self._entities: list[Any] = []
        self._heard = Heard()
        self._renew_at = math.inf
        self._renew_after = RENEW_SECONDS
        try:
            self._join()
        except DDSException as failure:
            self.close()
            raise EngineUnavailable(
                f"cannot join DDS domain {config.domain} on {config.interface}: {failure.msg}"
            ) from failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def until_quiet(self, seconds: float) -> Sight:
        """Look for ``seconds``, and longer while there is something new."""
        began = last = time.monotonic()
        while True:
            if self.look():
                last = time.monotonic()
            spent = time.monotonic() - began
            if spent >= seconds and (time.monotonic() - last >= QUIET_SECONDS or spent >= seconds * LONGEST):
                return self.seen()

    def look(self) -> bool:
        """Wait a moment for something new, and take it; whether there was any."""
        self._waitset.wait(TICK_NS)
        # before samples are taken: by a count from before, what a loss ends now would count as withdrawn
        self._look_at_liveliness()
        return self._look_at_programs() + self._look_at_endpoints() + self._look_at_offers() > 0

    def seen(self) -> Sight:
        """Everything that is there now."""
        self._learn_types()
        ends = [self._with_members(endpoint) for endpoint in self._endpoints.values()]
        own = tuple(_as_a_hosts(end) for end in ends if end.program == self._key)
        others = tuple(
            end
            for end in ends
            if end.program in self._programs and self._partition not in end.policies.partitions
        )
        writers = {handle: whose for handle, whose in self._writers.items() if whose in self._programs}
        return Sight(
            programs=tuple(self._programs.values()),
            endpoints=others,
            offers=tuple(self._heard.offers(writers)),
            clocks=tuple(self._clocks(self._heard.least_delays(writers))),
            undecodable=self._heard.undecodable(writers),
            own=own,
            incompatible=tuple(self._incompatible()),
            unmatched=frozenset(self._unmatched(own, others)),
            library=f"cyclonedds {version('cyclonedds')}",
            lost_peers=lost_peers(self._domain),
        )

    def close(self) -> None:
        """Leave the bus."""
        for entity in self._entities:
            entity.__del__()
        leave_domain(self._domain)

    # joining

    def _join(self) -> None:
        self._participant = DomainParticipant(self._domain)
        self._entities = [self._participant]
        self._key = key_of(self._participant.guid)
        self._topic = Topic(self._participant, _SEEN.name, idl_type(_SEEN))
        requests, replies = (
            Topic(self._participant, struct.name, idl_type(struct))
            for struct in (FUNCTION_EXECUTION_REQUEST, FUNCTION_EXECUTION_REPLY)
        )
        self._entities[:0] = [self._topic, requests, replies]
        subscriber = Subscriber(self._participant, qos=Qos(Policy.Partition(("", self._partition))))
        self._replies = DataReader(subscriber, replies, _REPLY_READER)
        publisher = Publisher(self._participant, qos=Qos(Policy.Partition(("", "eh.*"))))
        says = Policy.Userdata(user_data(self._partition).encode())
        self._requests = DataWriter(publisher, requests, Qos(says, base=CALL_WRITER))
        self._capabilities = self._capability_reader()
        builtin = (BuiltinTopicDcpsParticipant, BuiltinTopicDcpsPublication, BuiltinTopicDcpsSubscription)
        self._builtin = [BuiltinDataReader(self._participant, topic) for topic in builtin]
        self._attach()

    def _attach(self) -> None:
        """Wake up at whatever is new."""
        self._waitset = WaitSet(self._participant)
        readers = (*self._builtin, self._capabilities, self._replies)
        self._conditions = [ReadCondition(reader, ANY) for reader in readers]
        for condition in self._conditions:
            self._waitset.attach(condition)

    def _capability_reader(self) -> DataReader[Any]:
        return DataReader(self._participant, self._topic, _CAPABILITY_READER)

    # looking

    def _look_at_programs(self) -> int:
        news = 0
        for sample in _all(self._builtin[0]):
            key = key_of(_key_sample(sample).key)
            if key == self._key:
                continue
            news += 1
            if sample.sample_info.instance_state == InstanceState.Alive:
                self._programs[key] = program_of(sample)
            else:
                self._programs.pop(key, None)
                self._born_for_us.pop(key, None)
        return news

    def _look_at_endpoints(self) -> int:
        news = 0
        for reader, writes in ((self._builtin[1], True), (self._builtin[2], False)):
            for sample in _all(reader):
                if sample.sample_info.instance_state != InstanceState.Alive:
                    news += self._drop_endpoint(sample)
                elif is_application(sample):
                    news += self._note_endpoint(sample, writes=writes)
        return news

    def _drop_endpoint(self, sample: Any) -> bool:
        key = key_of(_key_sample(sample).key)
        self._type_ids.pop(key, None)
        self._writers.pop(sample.sample_info.instance_handle, None)
        return self._endpoints.pop(key, None) is not None

    def _note_endpoint(self, sample: Any, *, writes: bool) -> bool:
        endpoint = endpoint_of(sample, writes=writes)
        new = self._endpoints.get(endpoint.key) != endpoint
        self._endpoints[endpoint.key] = endpoint
        if writes:
            self._writers[sample.sample_info.instance_handle] = endpoint.program
        if sample.type_id is not None:
            self._type_ids[endpoint.key] = sample.type_id
        if endpoint.program == self._key:
            return False
        if writes and endpoint.topic == REPLIES and self._partition in endpoint.policies.partitions:
            delay = time.time() - sample.sample_info.source_timestamp / 1e9
            self._born_for_us.setdefault(endpoint.program, delay)
        return new

    def _look_at_offers(self) -> int:
        news = 0
        for data, info in _taken(self._capabilities):
            self._heard.note(data, info)
            news += 1
        for _ in _taken(self._replies):
            pass  # they are for others
        return news

    def _look_at_liveliness(self) -> None:
        """Look again, with a new reader, at what was lost.

        Instances of a writer that was lost stay disposed at readers that were there, though it is back; and
        an idle writer that is back shows itself to new readers only.
        """
        status: Any = self._capabilities.get_liveliness_changed_status()
        if not status.not_alive_count:
            self._heard.forget_ended()
            self._renew_after = RENEW_SECONDS
            self._renew_at = math.inf
        elif self._renew_at == math.inf:
            self._renew_at = time.monotonic() + self._renew_after
        elif time.monotonic() >= self._renew_at:
            self._renew_after = min(2 * self._renew_after, LONGEST_RENEWAL)
            self._renew_at = time.monotonic() + self._renew_after
            self._renew()

    def _renew(self) -> None:
        old, self._capabilities = self._capabilities, self._capability_reader()
        for data, info in _taken(old):
            self._heard.note(data, info)
        for entity in (*self._conditions, self._waitset, old):
            entity.__del__()
        self._attach()

    # telling

    def _clocks(self, least: Mapping[str, float]) -> Iterator[Clock]:
        for program in self._programs:
            if program in self._born_for_us:
                yield Clock(program, -self._born_for_us[program], exact=True)
            elif program in least:
                yield Clock(program, max(0.0, -least[program]), exact=False)

    def _incompatible(self) -> Iterator[tuple[str, int, int]]:
        for topic, ask in (
            (CAPABILITIES, self._capabilities.get_requested_incompatible_qos_status),
            (REPLIES, self._replies.get_requested_incompatible_qos_status),
            (REQUESTS, self._requests.get_offered_incompatible_qos_status),
        ):
            status: Any = ask()
            if status.total_count:
                yield topic, int(status.last_policy_id), int(status.total_count)

    def _unmatched(self, own: Iterable[Endpoint], others: Iterable[Endpoint]) -> Iterator[str]:
        """Endpoints that ours should match by all they announce, and do not."""
        reader, replies, requests = self._capabilities, self._replies, self._requests
        found = {
            CAPABILITIES: _matched(reader.get_matched_publications, reader.get_matched_publication_data),
            REPLIES: _matched(replies.get_matched_publications, replies.get_matched_publication_data),
            REQUESTS: _matched(requests.get_matched_subscriptions, requests.get_matched_subscription_data),
        }
        for mine in own:
            for other in others:
                if other.topic == mine.topic and other.writes != mine.writes:
                    writer, reader = (other, mine) if other.writes else (mine, other)
                    if other.key not in found.get(mine.topic, ()) and not mismatches(writer, reader):
                        yield other.key

    def _learn_types(self) -> None:
        """Ask for the members of types of which one topic has several, and of all types of capabilities."""
        definitions: dict[str, set[str]] = {}
        for endpoint in self._endpoints.values():
            definitions.setdefault(endpoint.topic, set()).add(endpoint.definition)
        for key, endpoint in self._endpoints.items():
            wanted = endpoint.definition
            several = len(definitions[endpoint.topic]) > 1 or endpoint.topic == CAPABILITIES
            if wanted and several and wanted not in self._types and self._unanswered < MOST_UNANSWERED:
                self._learn_type(wanted, self._type_ids[key])

    def _learn_type(self, wanted: str, type_id: Any) -> None:
        self._types[wanted] = ((), "")
        try:
            made, _ = get_types_for_typeid(self._participant, type_id, TYPE_PATIENCE_NS)
            self._types[wanted] = members_of_type(made)
        except Exception:  # noqa: BLE001 - peers describe what they like, or nothing: it stays unknown
            self._unanswered += 1

    def _with_members(self, endpoint: Endpoint) -> Endpoint:
        members, extensibility = self._types.get(endpoint.definition, ((), ""))
        return replace(endpoint, members=members, extensibility=extensibility) if members else endpoint


def _as_a_hosts(end: Endpoint) -> Endpoint:
    """Our reader of capabilities takes what breaks the bounds; a host's, for which it stands, does not."""
    if end.topic != CAPABILITIES:
        return end
    members, extensibility = members_of_type(idl_type(FUNCTION_CAPABILITY))
    return replace(end, definition="", members=members, extensibility=extensibility)


def _all(reader: BuiltinDataReader) -> Iterator[Any]:
    while taken := read(reader.take, BATCH):
        yield from taken


def _taken(reader: DataReader[Any]) -> Iterator[tuple[bytes, Any]]:
    """Samples undecoded: a malformed one takes no other with it."""
    while not isinstance(taken := ddspy_take(reader._ref, ANY, BATCH), int) and taken:
        yield from taken


def _key_sample(sample: Any) -> Any:
    return getattr(sample, "key_sample", sample)


def _matched(handles: Callable[[], list[int]], data: Callable[[int], Any]) -> frozenset[str]:
    return frozenset(key_of(found.key) for handle in matched(handles) if (found := read(data, handle)))
