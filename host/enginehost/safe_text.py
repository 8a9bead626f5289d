"""What a caller may read of what went wrong: no secret, no local path, no traceback.

Every error passes :func:`make_safe` or :func:`explain` on its way out of the call path, and every reason of
an engine's state passes :func:`safe_text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from enginehost.errors import ConfigError, EngineHostError, shortened
from enginehost.local_paths import cut_paths
from enginehost.redaction import without_url_passwords
from enginehost.values import NotJson, to_json

MOST = 2000
"""Characters of an exception's text that travel."""

_MOST_READ = 20_000
"""Characters that are looked through."""

_MOST_NAME = 200
"""Characters of an exception's class name that travel."""

_TELLING_NAMES = (
    "password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential"
    "|authorization"
)

# Each pattern reads a run of characters once, whatever stands in it: the text may be a caller's.
_USERINFO = re.compile(r"(?<=://)[^/\s]+@")
_SCHEME = re.compile(r"(?i)\b(bearer|basic)(\s++)(?=\S*[\d=])[\w.~+/=-]{8,}+")
_ASSIGNMENT = re.compile(
    r"(?i)(?<![\w-])(?!(?<=\$\{)secret:[^{}]{1,200}\})"  # `${secret:name}` names a secret and holds none
    rf"((?=[\w-]*?(?:{_TELLING_NAMES}))[\w-]++\\?[\"']?\s*+[=:]\s*+)"
    r"(?:bearer\s++|basic\s++)?(\"[^\"]*+\"|'[^']*+'|[^\s,;&)\]}]++)"
)
_TRACEBACK = re.compile(
    r"(?:Exception Group )?Traceback \(most recent call last\)|File \\?\"[^\"\n]{1,1000}\", line \d+, in "
)

Redact = Callable[[str], str]
"""Takes known secrets out of a text."""


def safe_text(text: str, redact: Redact) -> str:
    """``text`` with known secrets and what looks like one masked, and local paths cut to their last part.

    It ends where a traceback begins.
    """
    text = text[:_MOST_READ]
    if traceback := _TRACEBACK.search(text):
        text = text[: traceback.start()].rstrip(" \n\t+|")
    text = redact(text)[: 2 * MOST]
    text = _USERINFO.sub("***@", without_url_passwords(text))
    text = _ASSIGNMENT.sub(r"\1***", text)
    text = _SCHEME.sub(r"\1\2***", text)
    text = cut_paths(text)
    return text if len(text) <= MOST else f"{text[:MOST]} …"


def class_name(error: BaseException, redact: Redact) -> str:
    """The name of an exception's class, which code may choose as freely as its text."""
    return safe_text(type(error).__name__, redact)[:_MOST_NAME]


def told(error: BaseException) -> str:
    """The text of an exception; empty where a stranger's ``__str__`` fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - see above
        return ""


def explain(error: BaseException, redact: Redact) -> str:
    """An exception as ``Type: text``, safe for a caller."""
    kind, text = class_name(error, redact), safe_text(told(error), redact)
    return f"{kind}: {text}" if text else kind


def make_safe(error: EngineHostError, redact: Redact, *, own: bool) -> None:
    """Make the message and the detail of ``error`` safe for a caller, in place.

    ``own``: the host itself made it, of words of its own and of what the caller sent; only known secrets
    are looked for then, so that a pointer into the arguments is not taken for a path. No text stays longer
    than :data:`~enginehost.errors.MOST_TEXT`.
    """

    def clean(text: str) -> str:
        return shortened(redact(text)) if own else safe_text(text, redact)

    message = str(error.message)
    error.message = clean(message)
    error.args = tuple(
        error.message if part == message else clean(part) if isinstance(part, str) else part
        for part in error.args
    )
    if error.detail:
        error.detail = _clean_detail(error.detail, clean, redact)
    if isinstance(error, ConfigError):
        error.hint = clean(error.hint)


def _clean_detail(detail: Any, clean: Redact, redact: Redact) -> dict[str, Any]:
    try:
        return _cleaned(to_json(detail), clean, redact)
    except NotJson:
        return {}


def _cleaned(value: Any, clean: Redact, redact: Redact) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(item, clean, redact) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        # a JSON pointer looks like a path
        return {
            clean(name): shortened(redact(item))
            if name == "pointer" and isinstance(item, str)
            else _cleaned(item, clean, redact)
            for name, item in cast("dict[str, Any]", value).items()
        }
    return value
