"""Reads the topics of events for a monitor, without a host. For one thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from cyclonedds._clayer import ddspy_take
from cyclonedds.core import InstanceState, ReadCondition
from cyclonedds.core import WaitSet as Set

from enginehost.databus.config import DatabusConfig
from enginehost.databus.cyclone.cdr import Codec
from enginehost.databus.cyclone.intake import ANY
from enginehost.databus.cyclone.participant import Participant
from enginehost.databus.cyclone.qos import reader_qos
from enginehost.databus.types import TOPICS

BATCH = 1_024


class Taken(NamedTuple):
    """A sample: ``values`` by member, ``None`` where its instance ended; ``lost``: with who wrote it."""

    topic: str
    values: Mapping[str, Any] | None
    key: str
    lost: bool = False


class Listener:
    """Joins the bus when it is made. Raises :class:`EngineUnavailable` where that is impossible."""

    def __init__(self, config: DatabusConfig, topics: Sequence[str]) -> None:
        self.malformed = 0
        self._participant = Participant(config)
        self._waitset = Set(self._participant.entity)
        self._feeds: list[tuple[str, Any, Codec, list[str], ReadCondition]] = []
        for topic in topics:
            about = TOPICS[topic]
            reader = self._participant.reader(
                self._participant.topic(about.struct, topic), reader_qos(about.profile)
            )
            condition = ReadCondition(reader, ANY)
            self._waitset.attach(condition)
            names = [member.name for member in about.struct.members]
            self._feeds.append((topic, reader, Codec(about.struct), names, condition))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def take(self, seconds: float) -> Iterator[Taken]:
        """What has come, after at most ``seconds``."""
        self._waitset.wait(int(seconds * 1e9))
        for topic, reader, codec, names, _ in self._feeds:
            while not isinstance(taken := ddspy_take(reader._ref, ANY, BATCH), int) and taken:
                for data, info in taken:
                    try:
                        if info.valid_data:
                            members = codec.decode(data)
                            yield Taken(topic, dict(zip(names, members, strict=True)), str(members[0]))
                        elif info.instance_state != InstanceState.Alive and TOPICS[topic].struct.keyed:
                            lost = info.instance_state == InstanceState.NotAliveNoWriters
                            yield Taken(topic, None, codec.decode_key(data), lost)
                    except ValueError:
                        self.malformed += 1

    def close(self) -> None:
        """Leave the bus."""
        for _, reader, _, _, condition in self._feeds:
            self._waitset.detach(condition)
            condition.__del__()
            self._participant.delete(reader)
        self._waitset.__del__()
        self._participant.leave()
