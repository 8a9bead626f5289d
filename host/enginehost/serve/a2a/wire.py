"""Words of the protocol: versions, states, media types, times (A2A 1.0, sections 4 and 5)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from enginehost.errors import InvalidRequest
from enginehost.store.listing import standing_of
from enginehost.store.port import Run, Standing

VERSION = "1.0"
OLDER = "0.3"
"""Spoken too; what names no version speaks it."""

VERSION_HEADER = b"a2a-version"
JSON, A2A_JSON = "application/json", "application/a2a+json"

SUBMITTED = "TASK_STATE_SUBMITTED"
WORKING = "TASK_STATE_WORKING"
COMPLETED = "TASK_STATE_COMPLETED"
FAILED = "TASK_STATE_FAILED"
CANCELED = "TASK_STATE_CANCELED"
INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
REJECTED = "TASK_STATE_REJECTED"
UNSPECIFIED = "TASK_STATE_UNSPECIFIED"
STATES = (
    SUBMITTED,
    WORKING,
    COMPLETED,
    FAILED,
    CANCELED,
    INPUT_REQUIRED,
    REJECTED,
    "TASK_STATE_AUTH_REQUIRED",
)

STANDING = {
    Standing.NEW: SUBMITTED,
    Standing.GOING: WORKING,
    Standing.WAITING: INPUT_REQUIRED,
    Standing.DONE: COMPLETED,
    Standing.FAILED: FAILED,
    Standing.REFUSED: REJECTED,
    Standing.CANCELLED: CANCELED,
}
"""The state of a task by where its turn stands. One that ended at a limit has failed: half is no answer."""

ROLE_USER, ROLE_AGENT = "ROLE_USER", "ROLE_AGENT"


def state_of(run: Run) -> str:
    """The state of a task."""
    return STANDING[standing_of(run)]


def timestamp(seconds: float) -> str:
    """A time as ProtoJSON writes it."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def seconds_of(text: Any) -> float:
    """The inverse of :func:`timestamp`. Raises ``InvalidRequest``."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidRequest("statusTimestampAfter must be a time such as 2026-01-31T12:00:00Z")
    return found.timestamp()
