"""One end of a pair of topics: Connext's Requester or Replier, which tell what a reply is about."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import rti.connextdds as dds

from enginehost.databus import TOPICS, Gone, Sample, SampleHandler, Struct, TopicPair
from enginehost_connext.entities import Entities
from enginehost_connext.instances import texts
from enginehost_connext.peers import readers_of, writers_of
from enginehost_connext.pump import Pump
from enginehost_connext.qos import reader_qos, writer_qos
from enginehost_connext.structs import dynamic_type, members_of, sample_of

CALLS = TOPICS["FunctionExecutionRequest"].profile

LOOK_SECONDS = 0.01
MOST_ASKED = 16_384
"""Requests of one service that wait for their answer; the oldest ones are forgotten."""


class ConnextPair:
    """See :class:`~enginehost.databus.PairEnd`. Raises :class:`ValueError` for names that make no topics."""

    def __init__(
        self, entities: Entities, pair: TopicPair, handler: SampleHandler, gone: Gone, *, serves: bool
    ) -> None:
        self._pair = pair
        self._serves = serves
        self._gone = gone
        self._asked: dict[str, Any] = {}
        self._made = self._rpc(entities)
        reader: Any = self._made.request_datareader if serves else self._made.reply_datareader
        writer: Any = self._made.reply_datawriter if serves else self._made.request_datawriter
        self._writers, self._readers = writers_of(reader), readers_of(writer)
        self._read = pair.request if serves else pair.reply

        def deliver(samples: Sequence[tuple[Sample, Any]]) -> None:
            for sample, identity in samples:
                self._keep(sample.about, identity)
            handler([sample for sample, _ in samples])

        self._pump = Pump(
            entities.library,
            reader,
            self._sample,
            deliver=deliver,
            statuses=dds.StatusMask.SUBSCRIPTION_MATCHED,
            noticed=self._matched,
            owns_reader=False,
        )
        self._there = self.peers  # from here on changes are noticed

    @property
    def peers(self) -> frozenset[str]:
        """See :class:`~enginehost.databus.PairEnd`."""
        return self._writers.participants()

    async def reach(self, participant: str, patience: float) -> bool:
        """See :class:`~enginehost.databus.PairEnd`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        while loop.time() < until and not self._is_there(participant):  # noqa: ASYNC110 - readers are not told
            await asyncio.sleep(LOOK_SECONDS)
        return self._is_there(participant)

    def _is_there(self, participant: str) -> bool:
        both = self._readers.participants() & self.peers
        return participant in both if participant else bool(both)

    async def send(self, values: Mapping[str, Any], about: str = "") -> str | None:
        """See :class:`~enginehost.databus.PairEnd`."""
        written = self._pair.reply if self._serves else self._pair.request
        identity = self._asked.pop(about, None) if self._serves else None
        if self._serves and identity is None:
            return None
        try:
            sample = sample_of(written, values)
            if self._serves:
                self._made.send_reply(sample, identity)
                return ""
            return _told(self._made.send_request(sample))
        except (dds.TimeoutError, ValueError):
            return None

    async def close(self) -> None:
        """See :class:`~enginehost.databus.PairEnd`."""
        await self._pump.close()
        await asyncio.to_thread(self._made.close)

    def _rpc(self, entities: Entities) -> Any:
        library, base = entities.library, self._pair.request_topic.removesuffix("Request")
        kinds = dynamic_type(self._pair.request), dynamic_type(self._pair.reply)
        qos = {"datawriter_qos": writer_qos(CALLS), "datareader_qos": reader_qos(CALLS)}
        try:
            if self._serves:
                return library.replier(*kinds, entities.participant, base, **qos)
            free = {"require_matching_service_on_send_request": False}  # who answers is waited for here
            return library.requester(*kinds, entities.participant, base, **qos, **free)
        except dds.Exception as refused:
            raise ValueError(f"{self._pair.request_topic} is no name of a topic: {refused}") from None

    def _sample(self, sample: dds.DynamicData, info: Any) -> tuple[Sample, Any] | None:
        if not info.valid:
            return None
        own = info.original_publication_virtual_sample_identity
        identity = own if self._serves else info.related_original_publication_virtual_sample_identity
        who = self._writers.participant(info.publication_handle)
        return Sample(_values(self._read, sample), who, _told(identity)), identity

    def _keep(self, about: str, identity: Any) -> None:
        if self._serves:
            self._asked[about] = identity
            if len(self._asked) > MOST_ASKED:
                del self._asked[next(iter(self._asked))]

    def _matched(self) -> None:
        _ = self._pump.reader.subscription_matched_status  # read, it is not told again
        before, self._there = self._there, self.peers
        for participant in before - self._there:
            self._gone(participant)


def _values(struct: Struct, sample: dds.DynamicData) -> dict[str, Any]:
    return texts(members_of(struct, sample))


def _told(identity: Any) -> str:
    return f"{identity.writer_guid}-{identity.sequence_number}"
