"""A participant in a domain: its topics, and readers and writers by partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cyclonedds.core import DDSException
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic

from enginehost.databus.config import DatabusConfig
from enginehost.databus.cyclone.domain import enter_domain, leave_domain, not_joined
from enginehost.databus.cyclone.wire import idl_type
from enginehost.databus.port import DEFAULT_PARTITION
from enginehost.databus.struct import Struct


class Participant:
    """Joins the bus when it is made, which takes some milliseconds.

    Raises :class:`EngineUnavailable` with a reason where that is impossible.
    """

    def __init__(self, config: DatabusConfig) -> None:
        enter_domain(config)
        self._domain = config.domain
        self._topics: dict[tuple[str, str], Topic[Any]] = {}
        self._owners: dict[int, Publisher | Subscriber] = {}
        try:
            self.entity = DomainParticipant(config.domain)
        except DDSException as failure:
            leave_domain(config.domain)
            raise not_joined(config) from failure

    def topic(self, struct: Struct, name: str = "") -> Topic[Any]:
        """The topic of this name, by default the type's own."""
        name = name or struct.name
        key = name, struct.name  # a service's name may make the same topic for functions and for agents
        if key not in self._topics:
            self._topics[key] = Topic(self.entity, name, idl_type(struct))
        return self._topics[key]

    def writer(
        self, topic: Topic[Any], qos: Qos, partition: str = DEFAULT_PARTITION, user_data: str = ""
    ) -> DataWriter[Any]:
        """A writer in one partition; ``user_data`` is what discovery says of it."""
        if user_data:
            qos = Qos(Policy.Userdata(user_data.encode()), base=qos)
        if not partition:
            return DataWriter(self.entity, topic, qos)
        owner = Publisher(self.entity, Qos(Policy.Partition([partition])))
        writer: DataWriter[Any] = DataWriter(owner, topic, qos)
        self._owners[writer._ref] = owner
        return writer

    def reader(
        self, topic: Topic[Any], qos: Qos, partitions: Sequence[str] = (DEFAULT_PARTITION,)
    ) -> DataReader[Any]:
        """A reader in these partitions."""
        if not any(partitions):
            return DataReader(self.entity, topic, qos)
        owner = Subscriber(self.entity, Qos(Policy.Partition(list(partitions))))
        reader: DataReader[Any] = DataReader(owner, topic, qos)
        self._owners[reader._ref] = owner
        return reader

    def delete(self, endpoint: DataWriter[Any] | DataReader[Any]) -> None:
        """Delete an endpoint, with what was made for its partition."""
        owner = self._owners.pop(endpoint._ref, None)
        endpoint.__del__()
        if owner is not None:
            owner.__del__()

    def leave(self) -> None:
        """Leave the bus; endpoints are deleted before."""
        for entity in (*self._topics.values(), self.entity):
            entity.__del__()
        leave_domain(self._domain)
