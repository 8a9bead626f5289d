"""The types and topics of the databus as plain tables, from which each transport makes its own.

Rules common to all (Genesis's data model): registered under the bare struct name, ``@appendable``,
member ids sequential from 0, written as XCDR version 1. Bounds count UTF-8 bytes without the
terminating NUL; 0 is *unbounded*.

There are two eras, which share no topic but that of the log: the first is what the overview of Genesis
tells of, the second what Genesis 0.3 speaks.
"""

from __future__ import annotations

from enginehost.databus.struct import (
    Enumeration,
    Profile,
    Struct,
    Topic,
    int32,
    int64,
    key,
    nested,
    one_of,
    text,
    truth,
)

# both eras

LOG_MESSAGE = Struct(
    "LogMessage",
    (
        text("log_id", 128),
        int64("timestamp"),
        text("source_id", 128),
        text("source_name", 256),
        int32("level"),
        text("level_name", 32),
        text("message", 8192),
        text("logger_name", 256),
        text("thread_id", 128),
        text("thread_name", 256),
        text("file_name", 256),
        int32("line_number"),
        text("function_name", 256),
    ),
)
"""A line of a log. The second era has the same without bounds, and the two match."""

# era 1: discovery

FUNCTION_CAPABILITY = Struct(
    "FunctionCapability",
    (
        key("function_id", 128),
        text("name", 256),
        text("description", 2048),
        text("provider_id", 128),
        text("parameter_schema", 8192),
        text("capabilities", 2048),
        text("performance_metrics", 2048),
        text("security_requirements", 2048),
        text("classification", 2048),
        int64("last_seen"),
        text("service_name", 256),
    ),
)
"""A function that somebody offers: one instance per function while it can be called."""

AGENT_CAPABILITY = Struct(
    "AgentCapability",
    (
        key("agent_id", 128),
        text("name", 256),
        text("description", 2048),
        text("agent_type", 128),
        text("service_name", 128),
        int64("last_seen"),
        text("capabilities", 2048),
        text("specializations", 2048),
        text("model_info", 1024),
        text("classification_tags", 2048),
        text("performance_metrics", 1024),
        int32("default_capable"),
    ),
)
"""An agent that other agents may ask."""

AGENT_REGISTRATION = Struct(
    "genesis_agent_registration_announce",
    (
        text("message", 2048),
        text("prefered_name", 256),  # spelt so on the wire
        int32("default_capable"),
        key("instance_id", 128),
        text("service_name", 256),
    ),
)
"""An agent that interfaces may ask."""

LLM_FUNCTION_SCHEMA = Struct(
    "LLMFunctionSchema",
    (
        key("function_id", 128),
        text("name", 256),
        text("description", 2048),
        text("parameters_schema", 8192),
        text("returns_schema", 2048),
        text("provider_id", 128),
        text("version", 64),
        text("tags", 1024),
    ),
)
"""Declared by Genesis, and never published there."""

# era 1: calls

FUNCTION_EXECUTION_REQUEST = Struct(
    "FunctionExecutionRequest",
    (text("request_id"), text("function_id"), text("parameters"), int64("timestamp"), text("metadata")),
)
"""A call. Genesis bounds its strings; ours are unbounded, and the two match."""

FUNCTION_EXECUTION_REPLY = Struct(
    "FunctionExecutionReply",
    (
        text("request_id"),
        text("function_id"),
        text("result"),
        int32("status"),
        text("error_message"),
        int64("timestamp"),
        text("metadata"),
    ),
)
"""The answer to a call, with ``status`` 0 or the ``bus`` code of ``enginehost.errors.ERROR_TABLE``."""

ID_BOUND = 128
"""Genesis's bound of ``request_id`` and ``function_id``, in bytes."""
PROSE_BOUND = 2048
"""Genesis's bound of ``error_message`` and ``metadata``, in bytes: some peers drop longer ones."""

FUNCTION_CALL = Struct("FunctionCall", (text("name", 255), text("arguments", 255)))
"""The function and its arguments (JSON) inside a ``FunctionRequest``."""

FUNCTION_REQUEST = Struct(
    "FunctionRequest", (text("id", 255), text("type", 255), nested("function", FUNCTION_CALL))
)
"""A call of a Genesis service; the answer tells by DDS's sample identity which one it belongs to."""

FUNCTION_REPLY = Struct("FunctionReply", (text("result_json"), truth("success"), text("error_message", 255)))
"""The answer of a Genesis service."""

INTERFACE_AGENT_REQUEST = Struct(
    "InterfaceAgentRequest", (text("message", 8192), text("conversation_id", 128))
)
"""What a person's interface asks an agent."""

INTERFACE_AGENT_REPLY = Struct(
    "InterfaceAgentReply", (text("message", 8192), int32("status"), text("conversation_id", 128))
)
"""What the agent answers."""

AGENT_AGENT_REQUEST = Struct("AgentAgentRequest", (text("message", 8192), text("conversation_id", 128)))
"""What one agent asks another."""

AGENT_AGENT_REPLY = Struct(
    "AgentAgentReply", (text("message", 8192), int32("status"), text("conversation_id", 128))
)
"""What the other answers."""

SESSION_REQUEST = Struct(
    "SessionRequest", (text("operation"), text("session_id"), text("client_id"), text("metadata"))
)
"""Declared by Genesis, and used by nobody there; so are the next two."""

SESSION_REPLY = Struct(
    "SessionReply", (truth("success"), text("session_id"), text("error_message"), text("metadata"))
)
SESSION_EVENT = Struct(
    "SessionEvent",
    (text("event_type"), text("session_id"), text("client_id"), int64("timestamp"), text("metadata")),
)

TEST_REQUEST = Struct("TestRequest", (text("message", 8192),))
"""For trying a connection out."""
TEST_REPLY = Struct("TestReply", (text("message", 8192), int32("status")))

# era 1: what happens

COMPONENT_TYPE = Enumeration(
    "ComponentType", ("INTERFACE", "PRIMARY_AGENT", "SPECIALIZED_AGENT", "FUNCTION", "SERVICE")
)
COMPONENT_STATE = Enumeration(
    "ComponentState", ("JOINING", "DISCOVERING", "READY", "BUSY", "DEGRADED", "OFFLINE")
)
EVENT_CATEGORY = Enumeration(
    "EventCategory",
    (
        "NODE_DISCOVERY",
        "EDGE_DISCOVERY",
        "STATE_CHANGE",
        "AGENT_INIT",
        "AGENT_READY",
        "AGENT_SHUTDOWN",
        "DDS_ENDPOINT",
    ),
)
EVENT_TYPE = Enumeration(
    "EventType",
    (
        "FUNCTION_DISCOVERY",
        "FUNCTION_CALL",
        "FUNCTION_RESULT",
        "FUNCTION_STATUS",
        "FUNCTION_DISCOVERY_V2",
        "AGENT_TO_AGENT_REQUEST",
        "AGENT_TO_AGENT_RESPONSE",
        "AGENT_CONNECTION_ESTABLISHED",
        "AGENT_CONNECTION_LOST",
    ),
)
ENTITY_TYPE = Enumeration("EntityType", ("FUNCTION", "AGENT", "SPECIALIZED_AGENT", "INTERFACE"))

COMPONENT_LIFECYCLE_EVENT = Struct(
    "ComponentLifecycleEvent",
    (
        key("component_id", 128),
        one_of("component_type", COMPONENT_TYPE),
        one_of("previous_state", COMPONENT_STATE),
        one_of("new_state", COMPONENT_STATE),
        int64("timestamp"),
        text("reason", 1024),
        text("capabilities", 2048),
        text("chain_id", 128),
        text("call_id", 128),
        one_of("event_category", EVENT_CATEGORY),
        text("source_id", 128),
        text("target_id", 128),
        text("connection_type", 128),
    ),
)
"""A component, or a connection between two, has another state."""

CHAIN_EVENT = Struct(
    "ChainEvent",
    (
        key("chain_id", 128),
        text("call_id", 128),
        text("interface_id", 128),
        text("primary_agent_id", 128),
        text("specialized_agent_ids", 2048),
        text("function_id", 128),
        text("query_id", 128),
        int64("timestamp"),
        text("event_type", 128),
        text("source_id", 128),
        text("target_id", 128),
        int32("status"),
    ),
)
"""A call begins or ends; all of one chain have its id."""

MONITORING_EVENT = Struct(
    "MonitoringEvent",
    (
        key("event_id", 128),
        int64("timestamp"),
        one_of("event_type", EVENT_TYPE),
        one_of("entity_type", ENTITY_TYPE),
        text("entity_id", 128),
        text("metadata", 2048),
        text("call_data", 8192),
        text("result_data", 8192),
        text("status_data", 2048),
    ),
)
"""Anything else that happens."""

LIVELINESS_UPDATE = Struct(
    "LivelinessUpdate",
    (
        key("component_id", 128),
        one_of("component_type", COMPONENT_TYPE),
        one_of("state", COMPONENT_STATE),
        int64("last_active"),
        text("health_metrics", 1024),
    ),
)
"""Declared by Genesis, and never published there."""

GRAPH_NODE = Struct(
    "GenesisGraphNode",
    (
        key("node_id", 128),
        text("node_type", 32),
        text("node_state", 32),
        text("node_name", 256),
        text("metadata", 8192),
        int64("timestamp"),
    ),
)
"""A component in the picture of the whole."""

GRAPH_EDGE = Struct(
    "GenesisGraphEdge",
    (
        key("source_id", 128),
        key("target_id", 128),
        key("edge_type", 64),
        text("metadata", 4096),
        int64("timestamp"),
    ),
)
"""A connection in the picture of the whole."""

# era 2

ADVERTISEMENT_KIND = Enumeration("AdvertisementKind", ("FUNCTION", "AGENT", "REGISTRATION"))
GRAPH_ELEMENT_KIND = Enumeration("GraphElementKind", ("NODE", "EDGE"))
EVENT_KIND = Enumeration("EventKind", ("CHAIN", "LIFECYCLE", "GENERAL"))

GENESIS_ADVERTISEMENT = Struct(
    "GenesisAdvertisement",
    (
        key("advertisement_id"),
        one_of("kind", ADVERTISEMENT_KIND),
        text("name"),
        text("description"),
        text("service_name"),
        text("provider_id"),
        int64("last_seen"),
        text("payload"),
    ),
)
"""A function or an agent on offer; the rest of it is JSON in ``payload`` (see ``advertisement.py``)."""

GENESIS_RPC_REQUEST = Struct(
    "GenesisRPCRequest",
    (
        text("request_id"),
        text("message"),
        text("conversation_id"),
        text("target_service_guid"),
        text("service_instance_tag"),
        text("metadata"),
    ),
)
"""A call of a service, or of an agent."""

GENESIS_RPC_REPLY = Struct(
    "GenesisRPCReply",
    (
        text("request_id"),
        text("message"),
        int32("status"),
        text("conversation_id"),
        text("replier_service_guid"),
        text("service_instance_tag"),
        text("metadata"),
    ),
)
"""The answer to it."""

GRAPH_TOPOLOGY = Struct(
    "GraphTopology",
    (
        key("element_id"),
        one_of("kind", GRAPH_ELEMENT_KIND),
        int64("timestamp"),
        text("component_name"),
        text("component_type"),
        text("state"),
        text("metadata"),
    ),
)
"""A component, or a connection (with the id ``source|target|type``), in the picture of the whole."""

MONITORING_EVENT_UNIFIED = Struct(
    "MonitoringEventUnified",
    (
        text("event_id"),
        one_of("kind", EVENT_KIND),
        int64("timestamp"),
        text("component_id"),
        text("severity"),
        text("message"),
        text("payload"),
    ),
)
"""Anything that happens."""

# topics

DISCOVERY = Profile("DISCOVERY", durable=True, depth=1, lease=2)
CALLS = Profile("CALLS", durable=False, depth=0)
EVENTS = Profile("EVENTS", durable=False, depth=100)
GRAPH = Profile("GRAPH", durable=True, depth=1)
LOGS = Profile("LOGS", durable=True, depth=1000)

_TOPICS = (
    Topic("FunctionCapability", FUNCTION_CAPABILITY, (1,), DISCOVERY),
    Topic("AgentCapability", AGENT_CAPABILITY, (1,), DISCOVERY),
    Topic("GenesisRegistration", AGENT_REGISTRATION, (1,), DISCOVERY),
    Topic("FunctionExecutionRequest", FUNCTION_EXECUTION_REQUEST, (1,), CALLS),
    Topic("FunctionExecutionReply", FUNCTION_EXECUTION_REPLY, (1,), CALLS),
    Topic("<function service>Request", FUNCTION_REQUEST, (1,), CALLS),
    Topic("<function service>Reply", FUNCTION_REPLY, (1,), CALLS),
    Topic("<agent service>Request", INTERFACE_AGENT_REQUEST, (1,), CALLS),
    Topic("<agent service>Reply", INTERFACE_AGENT_REPLY, (1,), CALLS),
    Topic("<agent service>_<agent id>Request", AGENT_AGENT_REQUEST, (1,), CALLS),
    Topic("<agent service>_<agent id>Reply", AGENT_AGENT_REPLY, (1,), CALLS),
    Topic("ComponentLifecycleEvent", COMPONENT_LIFECYCLE_EVENT, (1,), EVENTS),
    Topic("ChainEvent", CHAIN_EVENT, (1,), EVENTS),
    Topic("MonitoringEvent", MONITORING_EVENT, (1,), EVENTS),
    Topic("rti/connext/genesis/monitoring/GenesisGraphNode", GRAPH_NODE, (1,), GRAPH),
    Topic("rti/connext/genesis/monitoring/GenesisGraphEdge", GRAPH_EDGE, (1,), GRAPH),
    Topic("GenesisLogs", LOG_MESSAGE, (1, 2), LOGS),
    Topic("rti/connext/genesis/Advertisement", GENESIS_ADVERTISEMENT, (2,), DISCOVERY),
    Topic("rti/connext/genesis/rpc/<service>Request", GENESIS_RPC_REQUEST, (2,), CALLS),
    Topic("rti/connext/genesis/rpc/<service>Reply", GENESIS_RPC_REPLY, (2,), CALLS),
    Topic("rti/connext/genesis/monitoring/GraphTopology", GRAPH_TOPOLOGY, (2,), GRAPH),
    Topic("rti/connext/genesis/monitoring/Event", MONITORING_EVENT_UNIFIED, (2,), EVENTS),
)
TOPICS = {topic.name: topic for topic in _TOPICS}
"""Every topic by its name (or by how its names are made); its struct says whether it is ``keyed``."""

WITHOUT_TOPIC = (
    LLM_FUNCTION_SCHEMA,
    LIVELINESS_UPDATE,
    SESSION_REQUEST,
    SESSION_REPLY,
    SESSION_EVENT,
    TEST_REQUEST,
    TEST_REPLY,
)
"""Types that Genesis declares in its first era without saying where they are published."""


def types_of(era: int | None = None) -> tuple[Struct, ...]:
    """The types of an era (1 or 2), or of both; those that others hold come before them."""
    with_topic = (topic.struct for topic in _TOPICS if era is None or era in topic.eras)
    structs = (*with_topic, *(WITHOUT_TOPIC if era != 2 else ()))
    return tuple(dict.fromkeys(one for struct in structs for one in (*struct.nested, struct)))
