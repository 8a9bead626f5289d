"""The XML of a participant of RTI's, with our types as ``enginehost databus idl`` prints them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from enginehost.databus.rti_xml import as_rti_xml
from enginehost.databus.struct import Profile, Topic
from enginehost.databus.types import TOPICS, types_of

_UDP = "dds.transport.UDPv4.builtin"
LARGE_BYTES = 4096


def entity(topic: str) -> str:
    """What an endpoint of ``topic`` is called: its last word."""
    return topic.rpartition("/")[2]


def configuration(domain: int, writers: Sequence[str], readers: Sequence[str], *, key: bool = True) -> str:
    """A participant on loopback with writers and readers of these topics.

    ``key``: its writers send a disposed instance's key, not only the hash of it.
    """
    topics = [TOPICS[name] for name in dict.fromkeys((*writers, *readers))]
    registered = dict.fromkeys(topic.struct.name for topic in topics)
    types = re.sub(r"<\?xml.*?\?>|</?dds>", "", as_rti_xml(types_of()))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<dds>
{types}
<qos_library name="Qualities">{"".join(_profile(topic, key) for topic in topics)}</qos_library>
<domain_library name="Domains"><domain name="Domain" domain_id="{domain}">
{"".join(_registered(name) for name in registered)}
{"".join(_topic(topic) for topic in topics)}
</domain></domain_library>
<domain_participant_library name="Participants"><domain_participant name="Peer" domain_ref="Domains::Domain">
<publisher name="Publisher">{"".join(_endpoint("writer", TOPICS[name]) for name in writers)}</publisher>
<subscriber name="Subscriber">{"".join(_endpoint("reader", TOPICS[name]) for name in readers)}</subscriber>
{_PARTICIPANT}
</domain_participant></domain_participant_library>
</dds>"""


def _registered(name: str) -> str:
    return (
        f'<register_type name="Type_{name}" type_ref="{name}">'
        f"<registered_name>{name}</registered_name></register_type>"
    )


def _topic(topic: Topic) -> str:
    return (
        f'<topic name="Topic_{entity(topic.name)}" register_type_ref="Type_{topic.struct.name}">'
        f"<registered_name>{topic.name}</registered_name></topic>"
    )


def _endpoint(kind: str, topic: Topic) -> str:
    name = entity(topic.name)
    return (
        f'<data_{kind} name="{name}" topic_ref="Topic_{name}">'
        f'<data{kind}_qos base_name="Qualities::{name}"/></data_{kind}>'
    )


def _profile(topic: Topic, key: bool) -> str:
    common = _common(topic.profile)
    return f"""<qos_profile name="{entity(topic.name)}">
<datawriter_qos>{common}{_pool("writer")}
<protocol><serialize_key_with_dispose>{str(key).lower()}</serialize_key_with_dispose></protocol>
<publish_mode><kind>ASYNCHRONOUS_PUBLISH_MODE_QOS</kind></publish_mode></datawriter_qos>
<datareader_qos>{common}{_pool("reader")}</datareader_qos></qos_profile>"""


def _common(profile: Profile) -> str:
    durability = "TRANSIENT_LOCAL" if profile.durable else "VOLATILE"
    history = "KEEP_LAST" if profile.depth else "KEEP_ALL"
    depth = f"<depth>{profile.depth}</depth>" if profile.depth else ""
    lease = (
        f"<liveliness><kind>AUTOMATIC_LIVELINESS_QOS</kind><lease_duration><sec>{profile.lease}</sec>"
        "<nanosec>0</nanosec></lease_duration></liveliness>"
    )
    return (
        "<reliability><kind>RELIABLE_RELIABILITY_QOS</kind></reliability>"
        f"<durability><kind>{durability}_DURABILITY_QOS</kind></durability>"
        f"<history><kind>{history}_HISTORY_QOS</kind>{depth}</history>{lease if profile.lease else ''}"
    )


def _pool(kind: str) -> str:
    name = f"dds.data_{kind}.history.memory_manager.fast_pool.pool_buffer_max_size"
    return f"<property><value>{_property(name, LARGE_BYTES)}</value></property>"


def _property(name: str, value: object) -> str:
    return f"<element><name>{name}</name><value>{value}</value></element>"


_PARTICIPANT = f"""<participant_qos>
<transport_builtin><mask>UDPv4</mask></transport_builtin>
<discovery><initial_peers><element>9@builtin.udpv4://127.0.0.1</element></initial_peers>
<multicast_receive_addresses></multicast_receive_addresses></discovery>
<property><value>{_property(f"{_UDP}.parent.allow_interfaces", "127.0.0.1")}
{_property(f"{_UDP}.ignore_loopback_interface", 0)}</value></property></participant_qos>"""
