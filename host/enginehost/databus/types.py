"""The types of the databus as plain tables, from which each transport makes its own.

Rules common to all (Genesis's data model): registered under the bare struct name, ``@appendable``,
member ids sequential from 0, written as XCDR version 1. Bounds count UTF-8 bytes without the
terminating NUL; 0 is *unbounded*.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The type of a member."""

    STRING = "string"
    INT32 = "int32"
    INT64 = "int64"


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a struct."""

    name: str
    kind: Kind
    bound: int = 0
    key: bool = False


@dataclass(frozen=True, slots=True)
class Struct:
    """One type; topics that carry it have its name unless said otherwise."""

    name: str
    members: tuple[Member, ...]

    def bound(self, member: str) -> int:
        """The bound of a string member, in bytes."""
        return next(m.bound for m in self.members if m.name == member)


def text(name: str, bound: int = 0) -> Member:
    """A string member."""
    return Member(name, Kind.STRING, bound)


def key(name: str, bound: int) -> Member:
    """A string member by which instances are told apart."""
    return Member(name, Kind.STRING, bound, key=True)


def int32(name: str) -> Member:
    """A 32-bit member (enumerations too are 32 bits wide)."""
    return Member(name, Kind.INT32)


def int64(name: str) -> Member:
    """A 64-bit member; times are milliseconds since 1970."""
    return Member(name, Kind.INT64)


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
