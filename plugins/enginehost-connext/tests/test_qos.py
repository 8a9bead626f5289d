"""Quality of service and names: what a Genesis program, and another vendor's reader, must find to match."""

from __future__ import annotations

from typing import Any

import pytest

dds = pytest.importorskip("rti.connextdds", reason="rti.connext is not installed")

from enginehost_connext.names import agent_service, function_service, interface_service  # noqa: E402
from enginehost_connext.qos import MOST_PARTICIPANTS, participant_qos, reader_qos, writer_qos  # noqa: E402

from enginehost.databus import TOPICS, DatabusConfig  # noqa: E402

CAPABILITIES = TOPICS["FunctionCapability"].profile
CALLS = TOPICS["FunctionExecutionRequest"].profile


@pytest.mark.parametrize("topic", TOPICS)
def test_both_ends_are_reliable_and_a_writer_never_waits_inside_the_library(topic: str) -> None:
    writer, reader = writer_qos(TOPICS[topic].profile), reader_qos(TOPICS[topic].profile)
    assert writer.reliability.kind == reader.reliability.kind == dds.ReliabilityKind.RELIABLE
    assert writer.reliability.max_blocking_time.to_seconds() == 0


@pytest.mark.parametrize("topic", TOPICS)
def test_writers_write_plain_cdr_only_and_readers_take_both(topic: str) -> None:
    written, read = (
        list(qos.data_representation.value)
        for qos in (writer_qos(TOPICS[topic].profile), reader_qos(TOPICS[topic].profile))
    )
    assert written == [dds.DataRepresentation.XCDR]
    assert read == [dds.DataRepresentation.XCDR, dds.DataRepresentation.XCDR2]


@pytest.mark.parametrize("make", [writer_qos, reader_qos])
def test_capabilities_are_kept_for_late_joiners_and_their_writers_alive_within_two_seconds(make: Any) -> None:
    qos = make(CAPABILITIES)
    assert qos.durability.kind == dds.DurabilityKind.TRANSIENT_LOCAL
    assert (qos.history.kind, qos.history.depth) == (dds.HistoryKind.KEEP_LAST, 1)
    assert qos.liveliness.kind == dds.LivelinessKind.AUTOMATIC
    assert qos.liveliness.lease_duration.to_seconds() == 2


@pytest.mark.parametrize("make", [writer_qos, reader_qos])
def test_calls_are_kept_until_they_are_taken_and_not_for_late_joiners(make: Any) -> None:
    qos = make(CALLS)
    assert qos.durability.kind == dds.DurabilityKind.VOLATILE
    assert qos.history.kind == dds.HistoryKind.KEEP_ALL
    assert qos.liveliness.lease_duration == dds.Duration.infinite


@pytest.mark.parametrize("topic", TOPICS)
def test_durability_and_history_are_those_of_the_tables(topic: str) -> None:
    profile = TOPICS[topic].profile
    for qos in (writer_qos(profile), reader_qos(profile)):
        assert (qos.durability.kind == dds.DurabilityKind.TRANSIENT_LOCAL) is profile.durable
        assert qos.history.kind == (dds.HistoryKind.KEEP_LAST if profile.depth else dds.HistoryKind.KEEP_ALL)
        assert not profile.depth or qos.history.depth == profile.depth


def test_a_disposed_key_is_sent_itself_not_only_its_hash() -> None:
    assert writer_qos(CAPABILITIES).protocol.serialize_key_with_dispose


def test_a_writer_that_goes_disposes_nothing() -> None:
    assert not writer_qos(CAPABILITIES).writer_data_lifecycle.autodispose_unregistered_instances


def test_a_reader_that_takes_nothing_holds_up_calls_for_seconds_at_most() -> None:
    reliable = writer_qos(CALLS).protocol.rtps_reliable_writer
    assert reliable.inactivate_nonprogressing_readers
    assert reliable.max_heartbeat_retries * reliable.heartbeat_period.to_seconds() <= 3


def test_texts_without_a_bound_are_not_given_their_largest_size_beforehand() -> None:
    for qos in (writer_qos(CALLS), reader_qos(CALLS)):
        (name,) = (one for one in qos.property.get_all() if one.endswith("pool_buffer_max_size"))
        assert int(qos.property[name]) <= 65_536


def test_the_bus_stays_on_loopback_without_multicast_unless_an_interface_is_named() -> None:
    qos = participant_qos(DatabusConfig(peers=("192.0.2.7",)))
    assert qos.transport_builtin.mask == dds.TransportBuiltinMask.UDPv4
    assert qos.property["dds.transport.UDPv4.builtin.parent.allow_interfaces_list"] == "127.0.0.1"
    assert qos.property["dds.transport.UDPv4.builtin.ignore_loopback_interface"] == "0"
    assert list(qos.discovery.multicast_receive_addresses) == []
    assert list(qos.discovery.initial_peers) == [
        f"{MOST_PARTICIPANTS - 1}@builtin.udpv4://127.0.0.1",
        f"{MOST_PARTICIPANTS - 1}@builtin.udpv4://192.0.2.7",
    ]


def test_peers_are_told_no_path_of_this_machine() -> None:
    assert not [
        value for value in participant_qos(DatabusConfig()).property.get_all().values() if "/" in value
    ]


def test_on_a_named_interface_it_multicasts_and_asks_the_peers_that_are_named() -> None:
    qos = participant_qos(DatabusConfig(interface="eth0", peers=("192.0.2.7",), lease=5))
    properties = qos.property
    assert properties["dds.transport.UDPv4.builtin.parent.allow_interfaces_list"] == "eth0"
    assert int(properties["dds.transport.UDPv4.builtin.parent.message_size_max"]) == 1_452
    assert list(qos.discovery.multicast_receive_addresses)
    assert qos.discovery_config.participant_liveliness_lease_duration.to_seconds() == 5
    assert qos.discovery_config.participant_liveliness_assert_period.to_seconds() < 2
    assert f"{MOST_PARTICIPANTS - 1}@builtin.udpv4://192.0.2.7" in list(qos.discovery.initial_peers)


@pytest.mark.parametrize(
    ("topics", "request_topic", "reply_topic"),
    [
        (function_service("Calculator"), "CalculatorRequest", "CalculatorReply"),
        (
            function_service("Calculator", era=2),
            "rti/connext/genesis/rpc/CalculatorRequest",
            "rti/connext/genesis/rpc/CalculatorReply",
        ),
        (interface_service("OpenAIChat"), "OpenAIChatRequest", "OpenAIChatReply"),
        (interface_service("OpenAIChat", "two"), "OpenAIChat_twoRequest", "OpenAIChat_twoReply"),
        (agent_service("OpenAIChat", "a1"), "OpenAIChat_a1Request", "OpenAIChat_a1Reply"),
        (
            agent_service("OpenAIChat", era=2),
            "rti/connext/genesis/rpc/OpenAIChat_AgentRPCRequest",
            "rti/connext/genesis/rpc/OpenAIChat_AgentRPCReply",
        ),
    ],
)
def test_topics_of_a_service_have_the_names_that_genesis_gives_them(
    topics: Any, request_topic: str, reply_topic: str
) -> None:
    assert (topics.request, topics.reply) == (request_topic, reply_topic)
