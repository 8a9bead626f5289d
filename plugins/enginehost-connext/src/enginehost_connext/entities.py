"""One participant, and the readers and writers that are made in it.

The classes of the entities are given, so that everything above them runs without a licence too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import rti.connextdds as dds
import rti.rpc as rpc

from enginehost.databus import DEFAULT_PARTITION, DatabusConfig, Profile, Struct
from enginehost_connext.licence import made_or_refused
from enginehost_connext.qos import participant_qos, reader_qos, writer_qos
from enginehost_connext.structs import dynamic_type

Reader = dds.DynamicData.DataReader
Writer = dds.DynamicData.DataWriter


@dataclass(frozen=True)
class Library:
    """Connext's classes that need a licence, or an entity that does."""

    participant: type[dds.DomainParticipant] = dds.DomainParticipant
    publisher: type[dds.Publisher] = dds.Publisher
    subscriber: type[dds.Subscriber] = dds.Subscriber
    topic: type[dds.DynamicData.Topic] = dds.DynamicData.Topic
    writer: type[Writer] = Writer
    reader: type[Reader] = Reader
    read_condition: type[dds.ReadCondition] = dds.ReadCondition
    status_condition: type[dds.StatusCondition] = dds.StatusCondition
    replier: type[rpc.Replier] = rpc.Replier
    requester: type[rpc.Requester] = rpc.Requester


class Entities:
    """The participant of a host. Raises :class:`EngineUnavailable` where Connext refuses it."""

    def __init__(self, config: DatabusConfig, library: Library) -> None:
        self.library = library
        where = f"DDS domain {config.domain} on {config.interface}"
        self.participant = made_or_refused(
            lambda: library.participant(config.domain, participant_qos(config)), where
        )
        self._topics: dict[str, dds.DynamicData.Topic] = {}

    def writer(
        self,
        name: str,
        struct: Struct,
        profile: Profile,
        partition: str = DEFAULT_PARTITION,
        user_data: bytes = b"",
    ) -> Writer:
        """A writer of a topic, in a publisher of its own."""
        qos = dds.PublisherQos()
        qos.partition = dds.Partition(partition)
        publisher = self.library.publisher(self.participant, qos)
        wanted = writer_qos(profile)
        if user_data:
            wanted.user_data = dds.UserData(dds.Uint8Seq(user_data))
        return self.library.writer(publisher, self._topic(name, struct), wanted)

    def reader(
        self, name: str, struct: Struct, profile: Profile, partitions: Sequence[str] = (DEFAULT_PARTITION,)
    ) -> Reader:
        """A reader of a topic, in a subscriber of its own."""
        qos = dds.SubscriberQos()
        qos.partition = dds.Partition(dds.StringSeq(list(partitions)))
        subscriber = self.library.subscriber(self.participant, qos)
        return self.library.reader(subscriber, self._topic(name, struct), reader_qos(profile))

    def close(self) -> None:
        """Leave the bus."""
        self.participant.close_contained_entities()
        self.participant.close()

    def _topic(self, name: str, struct: Struct) -> dds.DynamicData.Topic:
        if name not in self._topics:
            self._topics[name] = self.library.topic(self.participant, name, dynamic_type(struct))
        return self._topics[name]


def close_writer(writer: Writer) -> None:
    """Delete a writer and its publisher."""
    publisher = writer.publisher
    writer.close()
    publisher.close()


def close_reader(reader: Reader) -> None:
    """Delete a reader and its subscriber."""
    subscriber = reader.subscriber
    reader.close()
    subscriber.close()
