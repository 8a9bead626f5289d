"""Quality of service as Connext's: the profiles of the databus, and where its participant listens.

Everything that is not said here is Connext's default, also what a QoS file of the operator says (Connext
reads ``USER_QOS_PROFILES.xml`` in the working directory, and what ``NDDS_QOS_PROFILES`` names).
"""

from __future__ import annotations

import rti.connextdds as dds

from enginehost.databus import DatabusConfig, Profile

MOST_PARTICIPANTS = 110
"""Participants per machine and domain that are looked for; a domain has 120 pairs of ports."""

UNTAKEN_SAMPLES = 8_192
"""Requests that may wait in a reader; then writers are slowed down."""

SEND_WINDOW = 256
"""Samples that a writer of calls may have sent without their being acknowledged."""

HEARTBEAT_SECONDS = 0.1
MOST_HEARTBEATS = 20
"""Heartbeats without progress after which a reader counts as gone, so that it holds nobody up any more."""

ATTACHED_BYTES = 4_096
"""Up to this size a sample's memory is kept for the next; texts without a bound would take 2 GiB each."""

_POOL = "history.memory_manager.fast_pool.pool_buffer_max_size"
_UDP = "dds.transport.UDPv4.builtin"
_LARGEST_MESSAGE = 65_500
_ONE_FRAME = 1_300
_HEADERS = 5_500
_FRAME_HEADERS = 152
"""What a message may be longer than a fragment; one that is to fit into an Ethernet frame has less room."""


def participant_qos(config: DatabusConfig) -> dds.DomainParticipantQos:
    """UDP on one interface: loopback without multicast, unless another one is named."""
    qos = dds.DomainParticipantQos()
    qos.participant_name.name = "enginehost"
    qos.transport_builtin.mask = dds.TransportBuiltinMask.UDPv4
    peers = [_peer(address) for address in config.peers]
    if config.loopback:
        qos.discovery.multicast_receive_addresses = dds.StringSeq()
        qos.discovery.initial_peers = dds.StringSeq([_peer("127.0.0.1"), *peers])
    elif peers:
        qos.discovery.initial_peers = dds.StringSeq([*qos.discovery.initial_peers, *peers])
    qos.discovery_config.participant_liveliness_lease_duration = dds.Duration.from_seconds(config.lease)
    qos.discovery_config.participant_liveliness_assert_period = dds.Duration.from_seconds(config.lease / 3)
    for name, value in (
        ("allow_interfaces_list", "127.0.0.1" if config.loopback else config.interface),
        ("message_size_max", str(_message_bytes(config.fragment))),
    ):
        qos.property.set(f"{_UDP}.parent.{name}", value)
    qos.property.set(f"{_UDP}.ignore_loopback_interface", "0")
    qos.property.remove("dds.sys_info.executable_filepath")  # a path of this machine, which peers would see
    return qos


def _peer(address: str) -> str:
    """Connext looks at five participants of an address only, unless it is told more."""
    return f"{MOST_PARTICIPANTS - 1}@builtin.udpv4://{address}"


def _message_bytes(fragment: int) -> int:
    return min(_LARGEST_MESSAGE, fragment + (_HEADERS if fragment > _ONE_FRAME else _FRAME_HEADERS))


def writer_qos(profile: Profile) -> dds.DataWriterQos:
    """A writer: reliable, plain CDR only, never waiting inside the library.

    A disposed instance's key goes with it: the readers of other vendors cannot tell it from its hash. An
    instance that is only not written any more is not disposed.
    """
    qos = dds.DataWriterQos()
    qos.reliability = dds.Reliability.reliable(dds.Duration.zero)
    qos.durability = _durability(profile)
    qos.history = _history(profile)
    qos.liveliness = _liveliness(profile)
    qos.data_representation.value = dds.Int16Seq([dds.DataRepresentation.XCDR])
    qos.publish_mode = dds.PublishMode.asynchronous()  # needed for what one message does not carry
    qos.protocol.serialize_key_with_dispose = True
    qos.writer_data_lifecycle.autodispose_unregistered_instances = False
    qos.property.set(f"dds.data_writer.{_POOL}", str(ATTACHED_BYTES))
    if not profile.durable:
        _hurry(qos)
    return qos


def _hurry(qos: dds.DataWriterQos) -> None:
    """Notice at once what a reader lacks, and soon that it takes nothing."""
    reliable = qos.protocol.rtps_reliable_writer
    reliable.heartbeat_period = dds.Duration.from_seconds(HEARTBEAT_SECONDS)
    reliable.fast_heartbeat_period = dds.Duration.from_milliseconds(10)
    reliable.late_joiner_heartbeat_period = dds.Duration.from_milliseconds(10)
    reliable.max_nack_response_delay = dds.Duration.zero
    reliable.max_heartbeat_retries = MOST_HEARTBEATS
    reliable.inactivate_nonprogressing_readers = True
    reliable.min_send_window_size = SEND_WINDOW
    reliable.max_send_window_size = SEND_WINDOW


def reader_qos(profile: Profile) -> dds.DataReaderQos:
    """A reader: takes plain CDR, and what other vendors write by default."""
    qos = dds.DataReaderQos()
    qos.reliability = dds.Reliability.reliable()
    qos.durability = _durability(profile)
    qos.history = _history(profile)
    qos.liveliness = _liveliness(profile)
    qos.data_representation.value = dds.Int16Seq([dds.DataRepresentation.XCDR, dds.DataRepresentation.XCDR2])
    qos.property.set(f"dds.data_reader.{_POOL}", str(ATTACHED_BYTES))
    if not profile.depth:
        qos.resource_limits.max_samples = UNTAKEN_SAMPLES
        qos.protocol.rtps_reliable_reader.max_heartbeat_response_delay = dds.Duration.zero
    return qos


def _durability(profile: Profile) -> dds.Durability:
    return dds.Durability.transient_local if profile.durable else dds.Durability.volatile


def _history(profile: Profile) -> dds.History:
    return dds.History.keep_last(profile.depth) if profile.depth else dds.History.keep_all


def _liveliness(profile: Profile) -> dds.Liveliness:
    lease = dds.Duration.from_seconds(profile.lease) if profile.lease else dds.Duration.infinite
    liveliness = dds.Liveliness()  # automatic
    liveliness.lease_duration = lease
    return liveliness
