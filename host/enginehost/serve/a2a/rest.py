"""The paths of the HTTP+JSON binding (A2A 1.0, section 11)."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from enginehost.errors import InvalidRequest
from enginehost.serve.problem import HttpRefusal

_TASK = r"tasks/(?P<id>[^/:]+)"
_CONFIGS = rf"{_TASK}/pushNotificationConfigs"
_ROUTES = (
    ("message:send", "POST", "SendMessage"),
    ("message:stream", "POST", "SendStreamingMessage"),
    ("tasks", "GET", "ListTasks"),
    (_TASK, "GET", "GetTask"),
    (rf"{_TASK}:cancel", "POST", "CancelTask"),
    (rf"{_TASK}:subscribe", "GET POST", "SubscribeToTask"),
    (_CONFIGS, "POST", "CreateTaskPushNotificationConfig"),
    (_CONFIGS, "GET", "ListTaskPushNotificationConfigs"),
    (rf"{_CONFIGS}/(?P<config>[^/]+)", "GET", "GetTaskPushNotificationConfig"),
    (rf"{_CONFIGS}/(?P<config>[^/]+)", "DELETE", "DeleteTaskPushNotificationConfig"),
    ("extendedAgentCard", "GET", "GetExtendedAgentCard"),
)
_COMPILED = tuple((re.compile(path), methods.split(), name) for path, methods, name in _ROUTES)
_TRUTHS = {"true": True, "false": False}
_FLAGS = ("includeArtifacts",)
WITH_BODY = frozenset({"SendMessage", "SendStreamingMessage", "CreateTaskPushNotificationConfig"})
"""Operations whose parameters are the body; of cancel and subscribe it says nothing."""


class Asked(NamedTuple):
    """The operation that a request means, and the parameters in its path."""

    operation: str
    params: dict[str, Any]


def asked_by(path: str, method: str) -> Asked:
    """Raises :class:`HttpRefusal` for a path that is none, or does not take the method."""
    allowed: list[str] = []
    for pattern, methods, operation in _COMPILED:
        found = pattern.fullmatch(path)
        if found is None:
            continue
        if method in methods:
            parts = {name: unquote(part) for name, part in found.groupdict().items()}
            if "config" in parts:
                return Asked(operation, {"taskId": parts["id"], "id": parts["config"]})
            named = "taskId" if "PushNotification" in operation else "id"
            return Asked(operation, {named: parts["id"]} if parts else {})
        allowed += methods
    if allowed:
        raise HttpRefusal(405, "this path does not take this method", {"Allow": ", ".join(allowed)})
    raise HttpRefusal(404, "there is nothing at this path of the agent; its card says what there is")


def query_params(query: bytes) -> dict[str, Any]:
    """The parameters in a query string, truths as such. Raises ``InvalidRequest``."""
    found: dict[str, Any] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=50):
        if name in _FLAGS:
            if value not in _TRUTHS:
                raise InvalidRequest(f"{name} must be true or false")
            found[name] = _TRUTHS[value]
        elif value:
            found[name] = value
    return found


def prefers_plain(accept: bytes) -> bool:
    """Whether a client takes ``application/json`` and does not say that it takes the protocol's own type."""
    return b"application/json" in accept and b"a2a+json" not in accept
