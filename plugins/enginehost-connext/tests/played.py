"""Connext's entities without Connext: a bus within this process, for what needs a licence otherwise.

Samples cross it as Connext's own CDR, conditions are Connext's own guard conditions. The names are those of
the real classes; a test holds them against these.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import rti.connextdds as dds
from enginehost_connext.entities import Library

_numbers = itertools.count(1)


class Handle:
    """An instance handle."""

    def __init__(self, value: str) -> None:
        self.value = value

    @property
    def is_nil(self) -> bool:
        return not self.value

    def __str__(self) -> str:
        return self.value


class Bus:
    """What all participants are on."""

    def __init__(self) -> None:
        self.writers: list[DataWriter] = []
        self.readers: list[DataReader] = []
        self.lock = threading.RLock()

    def library(self) -> Any:
        return Library(
            participant=lambda domain, qos: DomainParticipant(self, domain, qos),  # type: ignore[arg-type]
            publisher=Group,  # type: ignore[arg-type]
            subscriber=Group,  # type: ignore[arg-type]
            topic=Topic,  # type: ignore[arg-type]
            writer=DataWriter,  # type: ignore[arg-type]
            reader=DataReader,  # type: ignore[arg-type]
            read_condition=lambda reader, state: reader.data,  # type: ignore[arg-type]
            status_condition=lambda reader: reader.status,  # type: ignore[arg-type]
            replier=Replier,  # type: ignore[arg-type]
            requester=Requester,  # type: ignore[arg-type]
        )

    def readers_of(self, writer: DataWriter) -> list[DataReader]:
        return [reader for reader in self.readers if matches(writer, reader)]

    def writers_of(self, reader: DataReader) -> list[DataWriter]:
        return [writer for writer in self.writers if matches(writer, reader)]


def matches(writer: DataWriter, reader: DataReader) -> bool:
    same = writer.topic.name == reader.topic.name
    return same and bool(writer.group.partitions & reader.group.partitions)


class DomainParticipant:
    def __init__(self, bus: Bus, domain: int, qos: dds.DomainParticipantQos) -> None:
        self.bus = bus
        self.qos = qos
        self.key = SimpleNamespace(value=dds.Uint32Seq([domain, 0, 0, next(_numbers)]))

    def close_contained_entities(self) -> None:
        for endpoint in (*self.bus.writers, *self.bus.readers):
            if endpoint.group.participant is self:
                endpoint.close()

    def close(self) -> None:
        self.close_contained_entities()


class Group:
    """A publisher or a subscriber."""

    def __init__(self, participant: DomainParticipant, qos: Any) -> None:
        self.participant = participant
        self.partitions = frozenset(qos.partition.name) or frozenset([""])
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Topic:
    def __init__(self, participant: DomainParticipant, name: str, kind: dds.StructType) -> None:
        self.name = name
        self.kind = kind


class Endpoint:
    def __init__(self, group: Group, topic: Topic, qos: Any) -> None:
        self.group = group
        self.bus = group.participant.bus
        self.topic = topic
        self.qos = qos
        self.handle = Handle(f"handle-{next(_numbers)}")

    @property
    def described(self) -> Any:
        return SimpleNamespace(participant_key=self.group.participant.key, user_data=self.qos.user_data)


class DataWriter(Endpoint):
    def __init__(self, publisher: Group, topic: Topic, qos: dds.DataWriterQos) -> None:
        super().__init__(publisher, topic, qos)
        self.publisher = publisher
        self.identity: Any = None
        self.related: Any = None
        self.instances: dict[str, bytes] = {}
        with self.bus.lock:
            self.bus.writers.append(self)
            for reader in self.bus.readers_of(self):
                reader.matched(self)

    @property
    def durable(self) -> bool:
        return self.qos.durability.kind == dds.DurabilityKind.TRANSIENT_LOCAL

    def write(self, sample: dds.DynamicData) -> None:
        data = bytes(sample.to_cdr_buffer())  # type: ignore[arg-type]
        with self.bus.lock:
            readers = self.bus.readers_of(self)
            if any(reader.behind for reader in readers):
                raise dds.TimeoutError("readers are behind")
            if self.durable:
                self.instances[self.key(sample)] = data
            for reader in readers:
                reader.arrived(self, data)

    def key(self, sample: dds.DynamicData) -> str:
        return "|".join(str(sample[member.name]) for member in self.topic.kind.members() if member.is_key)

    def lookup_instance(self, key: dds.DynamicData) -> Handle:
        name = self.key(key)
        return Handle(name if name in self.instances else "")

    def dispose_instance(self, handle: Handle) -> None:
        self.end(handle.value, dds.InstanceState.NOT_ALIVE_DISPOSED)

    def unregister_instance(self, handle: Handle) -> None:
        self.end(handle.value, dds.InstanceState.NOT_ALIVE_NO_WRITERS)
        self.instances.pop(handle.value, None)

    def end(self, name: str, state: dds.InstanceState) -> None:
        with self.bus.lock:
            others = [w for w in self.bus.writers if w is not self and w.topic.name == self.topic.name]
            if state == dds.InstanceState.NOT_ALIVE_NO_WRITERS and any(name in w.instances for w in others):
                return
            for reader in self.bus.readers_of(self):
                reader.ended(self, name, state)

    def wait_for_acknowledgments(self, patience: dds.Duration) -> None:
        if any(reader.behind for reader in self.bus.readers_of(self)):
            raise dds.TimeoutError("readers are behind")

    @property
    def matched_subscriptions(self) -> list[Handle]:
        with self.bus.lock:
            return [reader.handle for reader in self.bus.readers_of(self)]

    def matched_subscription_data(self, handle: Handle) -> Any:
        return found(self.bus.readers, handle)

    @property
    def publication_matched_status(self) -> Any:
        return SimpleNamespace(current_count=len(self.matched_subscriptions))

    @property
    def liveliness_lost_status(self) -> Any:
        return SimpleNamespace(total_count=0)

    def close(self) -> None:
        with self.bus.lock:
            if self not in self.bus.writers:
                return
            readers = self.bus.readers_of(self)
            for name in list(self.instances):
                self.end(name, dds.InstanceState.NOT_ALIVE_NO_WRITERS)
            self.bus.writers.remove(self)
            for reader in readers:
                reader.status.trigger_value = reader.wants(dds.StatusMask.SUBSCRIPTION_MATCHED)


class DataReader(Endpoint):
    def __init__(self, subscriber: Group, topic: Topic, qos: dds.DataReaderQos) -> None:
        super().__init__(subscriber, topic, qos)
        self.subscriber = subscriber
        self.behind = False
        self.replier: Replier | None = None
        self.samples: list[Any] = []
        self.known: dict[str, str] = {}
        self.data = dds.GuardCondition()
        self.status = StatusCondition()
        self.alive_count_change = self.not_alive_count_change = 0
        with self.bus.lock:
            self.bus.readers.append(self)
            for writer in self.bus.writers_of(self):
                self.matched(writer)

    def wants(self, status: dds.StatusMask) -> bool:
        return (self.status.enabled_statuses & status) == status

    def matched(self, writer: DataWriter) -> None:
        if self.wants(dds.StatusMask.SUBSCRIPTION_MATCHED):
            self.status.trigger_value = True
        if self.qos.durability.kind == dds.DurabilityKind.TRANSIENT_LOCAL:
            for data in writer.instances.values():
                self.arrived(writer, data)

    def arrived(self, writer: DataWriter, data: bytes) -> None:
        sample = dds.DynamicData(self.topic.kind)
        sample.from_cdr_buffer(dds.Uint8Seq(data))
        name = writer.key(sample) if writer.durable else ""
        self.known[name] = name
        self.put(writer, sample, name, dds.InstanceState.ALIVE)

    def ended(self, writer: DataWriter, name: str, state: dds.InstanceState) -> None:
        if self.known.pop(name, None) is not None:
            self.put(writer, None, name, state)

    def put(self, writer: DataWriter, sample: Any, name: str, state: dds.InstanceState) -> None:
        info = SimpleNamespace(
            valid=sample is not None,
            publication_handle=writer.handle,
            instance_handle=Handle(name),
            state=SimpleNamespace(instance_state=state),
            original_publication_virtual_sample_identity=writer.identity
            or SimpleNamespace(writer_guid=writer.handle, sequence_number=next(_numbers)),
            related_original_publication_virtual_sample_identity=writer.related,
        )
        with self.bus.lock:
            self.samples.append(SimpleNamespace(data=sample, info=info))
            self.data.trigger_value = True

    def liveliness(self, alive: int, not_alive: int) -> None:
        """Writers were not heard of any more, or are heard of again."""
        self.alive_count_change, self.not_alive_count_change = alive, not_alive
        self.status.trigger_value = self.wants(dds.StatusMask.LIVELINESS_CHANGED)

    def select(self) -> Selector:
        return Selector(self)

    def key_value(self, handle: Handle) -> dds.DynamicData:
        made = dds.DynamicData(self.topic.kind)
        (name,) = (member.name for member in self.topic.kind.members() if member.is_key)
        made[name] = handle.value
        return made

    @property
    def matched_publications(self) -> list[Handle]:
        with self.bus.lock:
            return [writer.handle for writer in self.bus.writers_of(self)]

    def matched_publication_data(self, handle: Handle) -> Any:
        return found(self.bus.writers, handle)

    @property
    def subscription_matched_status(self) -> Any:
        self.status.trigger_value = False
        return SimpleNamespace(current_count=len(self.matched_publications))

    @property
    def liveliness_changed_status(self) -> Any:
        self.status.trigger_value = False
        status = SimpleNamespace(
            alive_count_change=self.alive_count_change,
            not_alive_count_change=self.not_alive_count_change,
            not_alive_count=max(0, self.not_alive_count_change),
        )
        self.alive_count_change = self.not_alive_count_change = 0
        return status

    def close(self) -> None:
        with self.bus.lock:
            if self in self.bus.readers:
                self.bus.readers.remove(self)


class Replier:
    """Connext's own, which makes its endpoints itself."""

    def __init__(
        self, request: Any, reply: Any, participant: DomainParticipant, name: str, **qos: Any
    ) -> None:
        group = Group(participant, dds.PublisherQos())
        self.answers: list[tuple[dds.DynamicData, Any]] = []
        topic = Topic(participant, f"{name}Request", request)
        self.request_datareader = DataReader(group, topic, qos["datareader_qos"])
        self.request_datareader.replier = self
        self.reply_kind = reply
        self.reply_datawriter = DataWriter(
            group, Topic(participant, f"{name}Reply", reply), qos["datawriter_qos"]
        )

    def send_reply(self, reply: dds.DynamicData, identity: Any) -> None:
        assert reply.type == self.reply_kind
        self.answers.append((reply, identity))
        self.reply_datawriter.related = identity
        self.reply_datawriter.write(reply)

    def close(self) -> None:
        self.request_datareader.close()
        self.reply_datawriter.close()


class Requester:
    """Likewise."""

    def __init__(
        self, request: Any, reply: Any, participant: DomainParticipant, name: str, **qos: Any
    ) -> None:
        group = Group(participant, dds.PublisherQos())
        topics = (
            Topic(participant, f"{name}{way}", kind) for way, kind in (("Request", request), ("Reply", reply))
        )
        self.request_datawriter = DataWriter(group, next(topics), qos["datawriter_qos"])
        self.reply_datareader = DataReader(group, next(topics), qos["datareader_qos"])

    def send_request(self, request: dds.DynamicData) -> Any:
        identity = SimpleNamespace(writer_guid=self.request_datawriter.handle, sequence_number=next(_numbers))
        self.request_datawriter.identity = identity
        self.request_datawriter.write(request)
        return identity

    def close(self) -> None:
        self.request_datawriter.close()
        self.reply_datareader.close()


class StatusCondition(dds.GuardCondition):
    def __init__(self) -> None:
        super().__init__()
        self.enabled_statuses = dds.StatusMask.NONE


class Selector:
    def __init__(self, reader: DataReader) -> None:
        self.reader = reader
        self.most = 0

    def max_samples(self, most: int) -> Selector:
        self.most = most
        return self

    def take(self) -> list[Any]:
        reader = self.reader
        with reader.bus.lock:
            taken, reader.samples = reader.samples[: self.most], reader.samples[self.most :]
            reader.data.trigger_value = bool(reader.samples)
        return taken


def found(endpoints: Any, handle: Handle) -> Any:
    for endpoint in endpoints:
        if endpoint.handle.value == handle.value:
            return endpoint.described
    raise dds.PreconditionNotMetError("it is not matched")


def offered(kind: type) -> Iterator[str]:
    """What a played class has of the real one's names."""
    return (name for name in vars(kind) if not name.startswith("_"))
