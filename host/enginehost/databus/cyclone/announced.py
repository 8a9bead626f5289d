"""What Cyclone's builtin topics say of others, as our plain values."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, get_type_hints
from uuid import UUID

from cyclonedds.qos import Policy, Qos

from enginehost.databus.matching import DURABILITIES, LIVELINESS_KINDS, Endpoint, Policies
from enginehost.databus.sight import Program

Asked = ParamSpec("Asked")
Told = TypeVar("Told")

_READING = threading.Lock()
_INFINITE = (1 << 63) - 1
_BUILTIN = 0xC0  # entity kinds of the library itself (RTPS 2.5, 9.3.1.2)
_KEYED = {2, 7}
_DURABILITY: Mapping[Any, str] = dict(
    zip(
        (
            Policy.Durability.Volatile,
            Policy.Durability.TransientLocal,
            Policy.Durability.Transient,
            Policy.Durability.Persistent,
        ),
        DURABILITIES,
        strict=True,
    )
)
_LIVELINESS: Mapping[Any, str] = dict(
    zip(
        (
            Policy.Liveliness.Automatic,
            Policy.Liveliness.ManualByParticipant,
            Policy.Liveliness.ManualByTopic,
        ),
        LIVELINESS_KINDS,
        strict=True,
    )
)
_ACCESS: Mapping[Any, str] = {
    Policy.PresentationAccessScope.Instance: "instance",
    Policy.PresentationAccessScope.Topic: "topic",
    Policy.PresentationAccessScope.Group: "group",
}

# where the stacks say by which process a participant is (Cyclone; RTI; Fast DDS)
_HOST = ("__Hostname", "dds.sys_info.hostname", "fastdds.physical_data.host")
_PID = ("__Pid", "dds.sys_info.process_id", "fastdds.physical_data.process")
_PROCESS = ("__ProcessName", "dds.sys_info.executable_filepath")


def read(ask: Callable[Asked, Told], *asked: Asked.args, **more: Asked.kwargs) -> Told:
    """What ``ask`` gives, of the library's calls that tell the QoS of others: one thread at a time.

    The library reads QoS through places that all threads share: of two at once, one misses the user data.
    """
    with _READING:
        return ask(*asked, **more)


def key_of(guid: UUID) -> str:
    """A GUID as text."""
    return guid.hex


def program_of(sample: Any) -> Program:
    """A participant of others."""
    said = {p.key: p.value for p in sample.qos if type(p) is Policy.Property}
    name: Any = sample.qos[Policy.EntityName]
    liveliness: Any = sample.qos[Policy.Liveliness]
    pid = _first(said, _PID)
    return Program(
        key_of(sample.key),
        host=_first(said, _HOST),
        pid=int(pid) if pid.isascii() and pid.isdigit() and len(pid) < 20 else 0,
        process=_first(said, _PROCESS).rpartition("/")[2],
        name=name.name if name else "",
        lease=_seconds(liveliness.lease_duration) if liveliness else math.inf,
        addresses=tuple(part for part in said.get("__NetworkAddresses", "").split(",") if part),
    )


def is_application(sample: Any) -> bool:
    """Whether it is an endpoint of somebody's, and none of the library's own."""
    return sample.key.bytes[15] & _BUILTIN != _BUILTIN and not _is_of_library(sample)


def _is_of_library(sample: Any) -> bool:
    return sample.type_name.startswith("org::eclipse::cyclonedds::builtin::")


def endpoint_of(sample: Any, *, writes: bool) -> Endpoint:
    """A writer or reader."""
    return Endpoint(
        key_of(sample.key),
        key_of(sample.participant_key),
        sample.topic_name,
        sample.type_name,
        writes,
        keyed=sample.key.bytes[15] & 0x0F in _KEYED,
        policies=policies_of(sample.qos),
        definition=str(sample.type_id) if sample.type_id is not None else "",
    )


def policies_of(qos: Qos) -> Policies:
    """The policies that decide whom an endpoint matches."""
    said: Mapping[str, Any] = {policy.__scope__.partition("<")[0]: policy for policy in qos}
    liveliness, access = said.get("Liveliness"), said.get("PresentationAccessScope")
    partition, representation = said.get("Partition"), said.get("DataRepresentation")
    return Policies(
        reliable=isinstance(said.get("Reliability"), Policy.Reliability.Reliable),
        durability=_DURABILITY.get(said.get("Durability"), DURABILITIES[0]),
        deadline=_seconds(said["Deadline"].deadline) if "Deadline" in said else math.inf,
        latency_budget=_seconds(said["LatencyBudget"].budget) if "LatencyBudget" in said else 0.0,
        liveliness=_LIVELINESS.get(type(liveliness), LIVELINESS_KINDS[0]),
        lease=_seconds(liveliness.lease_duration) if liveliness else math.inf,
        exclusive=said.get("Ownership") == Policy.Ownership.Exclusive,
        by_source_time=said.get("DestinationOrder") == Policy.DestinationOrder.BySourceTimestamp,
        access=_ACCESS.get(type(access), "instance"),
        coherent=bool(access and access.coherent_access),
        ordered=bool(access and access.ordered_access),
        partitions=tuple(partition.partitions) if partition and partition.partitions else ("",),
        representations=_representations(representation),
    )


def members_of_type(made: Any) -> tuple[tuple[tuple[str, str], ...], str]:
    """Names and kinds of a type's members, with @key; and its extensibility."""
    marks: Mapping[str, Any] = getattr(made, "__idl_field_annotations__", {})
    hints = get_type_hints(made, include_extras=True)
    members = tuple(
        (name, f"@key {_kind(hint)}{_bound(hint)}" if marks.get(name, {}).get("key") else _kind(hint))
        for name, hint in hints.items()
        if not name.startswith("__")
    )
    return members, str(getattr(made, "__idl_annotations__", {}).get("extensibility", "final"))


def _kind(hint: Any) -> str:
    """A member's type without bounds, which keep endpoints apart only in keys."""
    word = _word(hint)
    return "string" if word == "str" or word.startswith("bounded_str") else word


def _bound(hint: Any) -> str:
    """``<128>`` where a text may have so many bytes, empty where it may have any number."""
    size = _word(hint).removeprefix("bounded_str").strip("[]")
    return f"<{size}>" if size.isdigit() else ""


def _word(hint: Any) -> str:
    marks = getattr(hint, "__metadata__", ())
    return str(marks[0]) if marks else getattr(hint, "__name__", str(hint))


def _representations(policy: Any) -> tuple[str, ...]:
    if policy is None:
        return ("XCDR1",)
    named = ("XCDR1",) * policy.use_cdrv0_representation + ("XCDR2",) * policy.use_xcdrv2_representation
    return named or ("XCDR1",)


def _seconds(nanoseconds: int) -> float:
    return math.inf if nanoseconds >= _INFINITE else nanoseconds / 1e9


def _first(said: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((said[name] for name in names if name in said), "")
