"""What a file says about every call of its function: limits, approval, bound arguments."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from enginehost.engine import Approval, Limits
from enginehost.interpret import Declaration
from enginehost.json_values import kind_of

CALLER_VALUES: tuple[str, ...] = ("$caller.subject", "$caller.tenant", "$caller.face", "$caller.scopes")
"""Bound values that the host takes from the caller of each call."""

_APPROVALS: Mapping[str, Approval] = {
    "never": Approval.NEVER,
    "always": Approval.ALWAYS,
    "destructive": Approval.DESTRUCTIVE,
    # SEMOSS's words (SMSS_MCP_EXECUTION); what it hides as disabled at least needs a person here
    "auto": Approval.NEVER,
    "ask": Approval.ALWAYS,
    "yesno": Approval.ALWAYS,
    "disabled": Approval.ALWAYS,
}
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*/\s*([a-z]+)")
_SECONDS: Mapping[str, int] = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86400),
}
_EXAMPLES: Mapping[str, str] = {
    "TIMEOUT_SECONDS": "30",
    "MAX_CONCURRENCY": "4",
    "QUEUE_LIMIT": "20",
    "MAX_RESULT_BYTES": "1000000",
}
_LONGEST_COMPARED = 100
_NO_LIMITS = Limits()
_LIMIT_KEYS = ("TIMEOUT_SECONDS", "MAX_CONCURRENCY", "QUEUE_LIMIT", "RATE_LIMIT", "MAX_RESULT_BYTES")
_RESOURCE = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]|\{[A-Za-z_][A-Za-z0-9_]*\}){1,2000}"
    r"(?: +[a-z]+/[A-Za-z0-9.+-]+)?"
)
_CALLER_VALUE = re.compile(r"\$caller(?:\.|$)")


def read_limits(declaration: Declaration) -> Limits:
    """The limits of the file. ``RATE_LIMIT=20/minute`` allows 20 at once and refills 20 a minute."""
    if not any(key in declaration for key in _LIMIT_KEYS):
        return _NO_LIMITS
    rate, burst = _rate(declaration)
    return Limits(
        timeout=_number(
            declaration, "TIMEOUT_SECONDS", "a number of seconds above 0", lambda value: value > 0
        ),
        max_concurrency=_whole(declaration, "MAX_CONCURRENCY", at_least=1),
        queue_limit=_whole(declaration, "QUEUE_LIMIT", at_least=0),
        rate=rate,
        burst=burst,
        max_result_bytes=_whole(declaration, "MAX_RESULT_BYTES", at_least=1),
    )


def _number(
    declaration: Declaration, key: str, wanted: str, allowed: Callable[[float], bool]
) -> float | None:
    text = declaration.words(key)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and allowed(value):
        return value
    hint = f"write {wanted}, such as {_EXAMPLES[key]}; without the key there is no limit but the host's"
    declaration.error(key, "bad-limit", f"{key} has to be {wanted}{declaration.quote(key)}", hint)
    return None


def _whole(declaration: Declaration, key: str, *, at_least: int) -> int | None:
    wanted = f"a whole number of at least {at_least}"
    # SEMOSS's forms write 5.0 for 5
    value = _number(declaration, key, wanted, lambda value: value >= at_least and value.is_integer())
    return None if value is None else int(value)


def _rate(declaration: Declaration) -> tuple[float | None, int]:
    text = declaration.words("RATE_LIMIT").lower()
    if not text:
        return None, 1
    match = _RATE.fullmatch(text)
    seconds = _SECONDS.get(match[2]) if match else None
    count = float(match[1]) if match else 0.0
    if seconds is None or not math.isfinite(count) or count <= 0:
        message = f"RATE_LIMIT has to be a number of calls per time{declaration.quote('RATE_LIMIT')}"
        declaration.error("RATE_LIMIT", "bad-limit", message, "write 100/s, 20/minute, 5/h or 1/day")
        return None, 1
    return count / seconds, max(1, int(count))


def read_approval(declaration: Declaration) -> Approval:
    """When a person has to agree (``APPROVAL``); absent: never."""
    text = declaration.words("APPROVAL").lower()
    if not text:
        return Approval.NEVER
    approval = _APPROVALS.get(text)
    if approval is None:
        *words, last = _APPROVALS
        message = f"APPROVAL has to be {', '.join(words)} or {last}{declaration.quote('APPROVAL')}"
        nearest = difflib.get_close_matches(text[:_LONGEST_COMPARED], _APPROVALS, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else "always: a person agrees before each call"
        declaration.error("APPROVAL", "bad-approval", message, hint)
    # what was meant as a guard must not open the door by a slip of the pen
    return approval or Approval.ALWAYS


def read_mcp(declaration: Declaration) -> str:
    """What the function is for clients of MCP (``FUNCTION_MCP``); empty: a tool."""
    key = "FUNCTION_MCP"
    text = declaration.words(key)
    if text.lower() in ("", "tool"):
        return ""
    if text.lower() == "prompt":
        return "prompt"
    if _RESOURCE.fullmatch(text) is None:
        message = f"{key} has to be tool, prompt or the URI of a resource{declaration.quote(key)}"
        hint = "write docs://orders/{id}, perhaps with a media type after it: docs://orders/{id} text/html"
        declaration.error(key, "bad-mcp", message, hint)
        return ""
    return text


def read_bind(declaration: Declaration) -> Mapping[str, Any]:
    """The bound arguments by name. ``$caller.…`` stays as text, for the host to fill at each call."""
    bind = declaration.json("FUNCTION_BIND")
    if bind is None:
        return {}
    if not isinstance(bind, dict):
        # what it binds may be a secret: only its kind is told
        message = f"FUNCTION_BIND has to be a JSON object, not {kind_of(bind)}"
        declaration.error("FUNCTION_BIND", "bad-bind", message, 'write {"parameter": value}')
        return {}
    for name, value in bind.items():
        if declaration.has_enough_findings:
            break
        if isinstance(value, str) and _CALLER_VALUE.match(value) and value not in CALLER_VALUES:
            nearest = difflib.get_close_matches(value, CALLER_VALUES, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(CALLER_VALUES)}"
            message = f"FUNCTION_BIND: {name} takes {value[:_LONGEST_COMPARED]}, which there is not"
            declaration.error("FUNCTION_BIND", "bad-bind", message, hint)
    return bind
