"""What a person should know of a file that runs: clear-text secrets, guardrails and keys that do nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel

from enginehost.config_keys import config_keys
from enginehost.interpret import Declaration
from enginehost.keys import COMMON_KEYS, NO_EFFECT, PUBLIC_KEYS, SEMOSS_KEYS

_SECRET = re.compile(
    r"(?i)(?:^|[_\W])(?:\w*api_?key|key|token|secret|pass|password|pwd|credentials?)(?:$|[_\W])"
)
_NO_SECRET = re.compile(r"(?i)(?:NAME|URL|ENDPOINT|ID|MODE|TYPE|METHOD|SCOPE|HEADER)$")
_SECRET_HEADER = re.compile(r"(?i)authorization|cookie|key|token|secret|password")
_IN_CODE = re.compile(r"""(?i)(?:key|token|secret|password|pwd)\w*['"\]]*\s*[=:,(]\s*['"][^'"\s]{6,}['"]""")
_NOTHING = frozenset({"", "EMPTY", "NONE", "NULL"})
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token)\s*")

_WRITTEN_BY_FORM = frozenset({"FUNCTION_TYPE", "NAME", "PIPELINE", "MCP_ENABLED", "ENGINE_TYPE"})
"""SEMOSS's forms put them into every file: nobody meant something by them."""

DOUBTS = frozenset({"secret-in-file", "no-guardrails"})
"""The codes of what is told here."""

_PIPELINE = "pipeline.json"
_MOST_PIPELINE = 1 << 20


def warn_of_secrets(declaration: Declaration) -> None:
    """Warn of each key whose value, in clear text, looks like a secret. No message holds the value.

    ``declaration`` is one with sources that give nothing, so what has a value has it in the file.
    """
    for key in sorted(set(_secret_keys(declaration))):
        message = f"{key} holds a secret in clear text, which is kept as it is"
        hint = f"write {key} with ${{env:…}} or ${{secret:…}} instead, and let only the host read the file"
        declaration.warning(key, "secret-in-file", message, hint)


def _secret_keys(declaration: Declaration) -> Iterator[str]:
    for key in declaration.keys():  # noqa: SIM118 (not a mapping)
        if key in PUBLIC_KEYS:
            continue
        text = declaration.text(key) or ""
        if (
            (_is_secret_name(key) and text.strip().upper() not in _NOTHING and "${" not in text)
            or (key in ("URL", "API_ENDPOINT_URL", "ENDPOINT") and _in_url(text))
            or (key.startswith("INIT_") and _IN_CODE.search(text))
        ):
            yield key
    if _in_headers(declaration.json("HEADERS")):
        yield "HEADERS"


def _is_secret_name(key: str) -> bool:
    return _SECRET.search(key) is not None and _NO_SECRET.search(key) is None


def _in_headers(headers: Any) -> bool:
    if not isinstance(headers, dict):
        return False
    return any(
        _SECRET_HEADER.search(str(name))
        and _SCHEME.sub("", str(value), count=1).strip()
        and "${" not in value
        for name, value in headers.items()  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, str)
    )


def _in_url(text: str) -> bool:
    try:
        parts = urlsplit(text.strip())
    except ValueError:
        return False
    return bool(parts.password) or any(
        value and _is_secret_name(name) for name, value in parse_qsl(parts.query) if "${" not in value
    )


def warn_of_guardrails(declaration: Declaration, folders: Iterable[Path]) -> None:
    """Warn where the engine's folder has guardrails around the function: here it runs without them."""
    name = (declaration.text("PIPELINE") or "").strip() or _PIPELINE
    for folder in folders:
        for file in sorted(folder.rglob(_PIPELINE)):
            if file.name == name and _says_something(file):
                message = f"{file.name} puts guardrails around the function, and none of them runs here"
                hint = "check in the function itself what they checked, or do not serve it"
                declaration.warning("PIPELINE", "no-guardrails", message, hint)
                return


def _says_something(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            said = json.loads(opened.read(_MOST_PIPELINE))
    except (OSError, ValueError, RecursionError):
        return True
    return _has_leaf(said)


def _has_leaf(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_leaf, value.values() if isinstance(value, dict) else value))
    return value is not None


def keys_without_effect(declaration: Declaration, model: type[BaseModel] | None) -> list[str]:
    """Keys of SEMOSS with a value that nothing here reads, beside those that forms write into every file.

    Keys that warnings tell of anyway are not among them.
    """
    read = {name for key in config_keys(model) for name in key.accepted} if model else set[str]()
    read |= {*COMMON_KEYS, *declaration.referenced(), *_WRITTEN_BY_FORM, *NO_EFFECT}
    keys = [key for key in declaration.keys() if key in SEMOSS_KEYS and key not in read]  # noqa: SIM118
    return [key for key in keys if (declaration.text(key) or "").strip()]
