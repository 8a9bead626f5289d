"""The text of an exception as a caller may read it: no secret, no local path, no traceback."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

MOST = 2000
"""Characters of an exception's text that travel."""

_MOST_READ = 20_000
"""Characters that are looked through; a cut inside a secret would let its beginning through."""

_TELLING_NAMES = (
    "password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential"
    "|authorization"
)

# Each pattern reads a run of characters once, whatever stands in it: the text may be a caller's.
_USERINFO = re.compile(r"(?<=://)[^/\s]+@")
_SCHEME = re.compile(r"(?i)\b(bearer|basic)(\s++)(?=\S*[\d=])[\w.~+/=-]{8,}+")
_ASSIGNMENT = re.compile(
    rf"(?i)(?<![\w-])((?=[\w-]*?(?:{_TELLING_NAMES}))[\w-]++\\?[\"']?\s*+[=:]\s*+)"
    r"(?:bearer\s++|basic\s++)?(\"[^\"]*+\"|'[^']*+'|[^\s,;&)\]}]++)"
)
_POSIX = re.compile(
    r"(?:(?<=file://)|(?<![\w/.~-]))/(?!/)([\w.@+-]++)(?:/[\w.@+-](?:[\w.@+ -]*[\w.@+-])?)*+/?"
)
_WINDOWS = re.compile(
    r"\b[A-Za-z]:\\+(?:[\w.@+ $(),-]++\\+)*+([\w.@+ $(),-]+)?"
    r"|(?<![\\\w])\\\\+(?:[\w.@+ $(),-]++\\+)++([\w.@+ $(),-]+)?"
)


@cache
def _roots() -> frozenset[str]:
    return frozenset(entry.name for entry in Path("/").iterdir())


def _base_name(match: re.Match[str]) -> str:
    text = match.group(0)
    return text.rstrip("/").rsplit("/", 1)[-1] if match.group(1) in _roots() else text


def _windows_name(match: re.Match[str]) -> str:
    return match.group(1) or match.group(2) or match.group(0).rstrip("\\").rsplit("\\", 1)[-1]


def safe_text(text: str, redact: Callable[[str], str]) -> str:
    """``text`` with known secrets and what looks like one masked, and local paths cut to their last part."""
    text = redact(text[:_MOST_READ])[: 2 * MOST]
    text = _USERINFO.sub("***@", text)
    text = _ASSIGNMENT.sub(r"\1***", text)
    text = _SCHEME.sub(r"\1\2***", text)
    text = _POSIX.sub(_base_name, text)
    text = _WINDOWS.sub(_windows_name, text)
    return text if len(text) <= MOST else f"{text[:MOST]} …"


def explain(error: BaseException, redact: Callable[[str], str]) -> str:
    """An exception as ``Type: text``, safe for a caller."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a stranger's `__str__`
        text = ""
    kind = str(getattr(error, "remote_type", "") or type(error).__name__)
    return f"{kind}: {safe_text(text, redact)}" if text else kind
