"""No file that may be loaded holds the host up: the largest and worst take less than a second each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from enginehost.engine import EngineState, HostAccess
from enginehost.file_findings import MOST_FINDINGS
from enginehost.loader import MAX_FILE_BYTES, Loader, sources
from enginehost.parameter_list import MOST_PARAMETERS
from enginehost.plugins import PluginRegistry
from enginehost.secrets import Secrets

PATIENCE = 2.0
"""Seconds; measured are less than 0.6 on an idle core."""


def full(piece: str) -> str:
    return piece * (MAX_FILE_BYTES // len(piece))


def each(form: str, many: int = MAX_FILE_BYTES) -> str:
    """``form`` with 0, 1, 2, … until the file is full."""
    return "".join(form.replace("#", str(number)) for number in range(many // (len(form) + 4)))


def value(key: str, text: str) -> str:
    return f"ENGINE_CLASS=REST\nURL=http://localhost/\nFUNCTION_NAME=f\n{key}={text}"


def members(form: str, many: int) -> str:
    return ",".join(form.replace("#", str(number)) for number in range(many))


FILES: dict[str, Callable[[], str]] = {
    "unclosed placeholders": lambda: value("FUNCTION_DESCRIPTION", full("${")),
    "unknown placeholders": lambda: value("FUNCTION_DESCRIPTION", full("${k}")),
    "placeholders of many names": lambda: value("FUNCTION_DESCRIPTION", each("${k#}")),
    "placeholders of many files": lambda: value("", each("K#=${file:n#}\n")),
    "placeholders of many secrets": lambda: value("", each("K#=${secret:n#}\n")),
    "a chain of keys": lambda: value("K", each("\nK#=${K1#}")),
    "a value taken often": lambda: value("A", "x" * 500_000 + each("\nK#=${A}", 1 << 21)),
    "many unknown keys": lambda: value("", each("K#=1\n")),
    "long unknown keys": lambda: value("", each(f"K#{'k' * 1000}=1\n")),
    "one key again and again": lambda: value("", full("a=1\n")),
    "one long key": lambda: value("", full("k")),
    "continued lines": lambda: value("A", full("\\\n")),
    "malformed escapes": lambda: value("A", full("\\ux")),
    "malformed escapes on continued lines": lambda: value("A", full("\\ux\\\n")),
    "malformed escapes in keys": lambda: value("", full("\\ux\n")),
    "lone surrogates": lambda: value("", each("K#=\\ud800\n")),
    "required names": lambda: value(
        "FUNCTION_REQUIRED_PARAMETERS", "[" + members('"n#"', MOST_PARAMETERS) + "]"
    ),
    "too many required names": lambda: value(
        "FUNCTION_REQUIRED_PARAMETERS", "[" + members('"n#"', 90_000) + "]"
    ),
    "parameters": lambda: value(
        "FUNCTION_PARAMETERS", "[" + members('{"name":"n#","type":"T#","min":1}', MOST_PARAMETERS) + "]"
    ),
    "unknown fields": lambda: value(
        "FUNCTION_PARAMETERS", '[{"name":"a",' + members('"field#":1', 60_000) + "}]"
    ),
    "deep lists": lambda: value("FUNCTION_PARAMETERS", full("[")),
    "deep objects": lambda: value("FUNCTION_PARAMETERS", full('{"a":')),
    "careless JSON": lambda: value("FUNCTION_PARAMETERS", f"[{full('1,')}]"),
    "digits": lambda: value("FUNCTION_PARAMETERS", f"[{'1' * 299_000}x]"),
    "an open comment": lambda: value("FUNCTION_PARAMETERS", f"[{full('/*')}"),
    "bound names": lambda: value("FUNCTION_BIND", "{" + members('"n#":"$caller.x"', 40_000) + "}"),
    "placements": lambda: value("PARAMETER_PLACEMENT", "{" + members('"n#":"query"', 40_000) + "}"),
    "an id of many dots": lambda: value("ENGINE", full("a.")),
    "a long class": lambda: f"ENGINE_CLASS={full('REST ')}",
    "a long result path": lambda: value("RESPONSE_PATH", full("a.")),
}


@pytest.mark.parametrize("name", FILES)
def test_the_largest_file_is_read_in_a_moment(name: str, tmp_path: Path) -> None:
    data = FILES[name]().encode()[:MAX_FILE_BYTES]
    secrets = Secrets()
    loader = Loader(
        PluginRegistry(), secrets, sources(secrets, tmp_path), HostAccess(), secrets.redactor, lambda _: None
    )
    loader.load_text(b"ENGINE_CLASS=REST\nURL=http://localhost/\nFUNCTION_NAME=f", tmp_path / "warm.smss")
    started = time.thread_time()
    loaded = loader.load_text(data, tmp_path / "a.smss")
    assert time.thread_time() - started < PATIENCE
    assert len(loaded.record.diagnostics) <= MOST_FINDINGS + 3
    assert len(json.dumps([found.to_json() for found in loaded.record.diagnostics])) < 1_000_000
    assert loaded.engine is not None or loaded.record.state is EngineState.FAILED
