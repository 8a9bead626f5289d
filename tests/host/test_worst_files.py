"""No file that may be loaded holds the host up: what the worst take grows with their size, and no faster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from enginehost.engine import EngineState, HostAccess
from enginehost.file_findings import MOST_FINDINGS
from enginehost.json_values import MAX_LENIENT
from enginehost.loader import MAX_FILE_BYTES, Loader, sources
from enginehost.parameter_list import MOST_PARAMETERS
from enginehost.plugins import PluginRegistry
from enginehost.secrets import Secrets

SMALLER = 16
"""How many times smaller the files are with which the largest are compared."""
CARELESS = MAX_LENIENT - 1000
"""Characters of JSON that are still read leniently."""


def full(piece: str, size: int) -> str:
    return piece * (size // len(piece))


def each(form: str, size: int) -> str:
    """``form`` with 0, 1, 2, … until the file is full."""
    return "".join(form.replace("#", str(number)) for number in range(size // (len(form) + 4)))


def value(key: str, text: str) -> str:
    return f"ENGINE_CLASS=REST\nURL=http://localhost/\nFUNCTION_NAME=f\n{key}={text}"


def members(form: str, many: int) -> str:
    return ",".join(form.replace("#", str(number)) for number in range(many))


def of(most: int, size: int) -> int:
    """So many of ``most`` as the file is large, of the largest one."""
    return most * size // MAX_FILE_BYTES


FILES: dict[str, Callable[[int], str]] = {
    "unclosed placeholders": lambda size: value("FUNCTION_DESCRIPTION", full("${", size)),
    "unknown placeholders": lambda size: value("FUNCTION_DESCRIPTION", full("${k}", size)),
    "placeholders of many names": lambda size: value("FUNCTION_DESCRIPTION", each("${k#}", size)),
    "placeholders of many files": lambda size: value("", each("K#=${file:n#}\n", size)),
    "placeholders of many secrets": lambda size: value("", each("K#=${secret:n#}\n", size)),
    "a chain of keys": lambda size: value("K", each("\nK#=${K1#}", size)),
    "a value taken often": lambda size: value("A", "x" * of(500_000, size) + each("\nK#=${A}", size // 2)),
    "many unknown keys": lambda size: value("", each("K#=1\n", size)),
    "long unknown keys": lambda size: value("", each(f"K#{'k' * 1000}=1\n", size)),
    "one key again and again": lambda size: value("", full("a=1\n", size)),
    "one long key": lambda size: value("", full("k", size)),
    "continued lines": lambda size: value("A", full("\\\n", size)),
    "malformed escapes": lambda size: value("A", full("\\ux", size)),
    "malformed escapes on continued lines": lambda size: value("A", full("\\ux\\\n", size)),
    "malformed escapes in keys": lambda size: value("", full("\\ux\n", size)),
    "lone surrogates": lambda size: value("", each("K#=\\ud800\n", size)),
    "required names": lambda size: value(
        "FUNCTION_REQUIRED_PARAMETERS", "[" + members('"n#"', of(MOST_PARAMETERS, size)) + "]"
    ),
    "too many required names": lambda size: value(
        "FUNCTION_REQUIRED_PARAMETERS", "[" + members('"n#"', of(90_000, size)) + "]"
    ),
    "parameters": lambda size: value(
        "FUNCTION_PARAMETERS",
        "[" + members('{"name":"n#","type":"T#","min":1}', of(MOST_PARAMETERS, size)) + "]",
    ),
    "unknown fields": lambda size: value(
        "FUNCTION_PARAMETERS", '[{"name":"a",' + members('"field#":1', of(60_000, size)) + "}]"
    ),
    "deep lists": lambda size: value("FUNCTION_PARAMETERS", full("[", size)),
    "deep careless lists": lambda size: value("FUNCTION_PARAMETERS", full("[", of(CARELESS, size))),
    "deep objects": lambda size: value("FUNCTION_PARAMETERS", full('{"a":', size)),
    "careless JSON": lambda size: value("FUNCTION_PARAMETERS", f"[{full('1,', of(CARELESS, size))}]"),
    "digits": lambda size: value("FUNCTION_PARAMETERS", f"[{'1' * of(CARELESS, size)}x]"),
    "an open comment": lambda size: value("FUNCTION_PARAMETERS", f"[{full('/*', of(CARELESS, size))}"),
    "bound names": lambda size: value(
        "FUNCTION_BIND", "{" + members('"n#":"$caller.x"', of(40_000, size)) + "}"
    ),
    "placements": lambda size: value(
        "PARAMETER_PLACEMENT", "{" + members('"n#":"query"', of(40_000, size)) + "}"
    ),
    "an id of many dots": lambda size: value("ENGINE", full("a.", size)),
    "a long class": lambda size: f"ENGINE_CLASS={full('REST ', size)}",
    "a long result path": lambda size: value("RESPONSE_PATH", full("a.", size)),
}


@pytest.fixture
def load(tmp_path: Path) -> Callable[[bytes], Any]:
    """Reads a file of these bytes, with a loader that has read one before."""
    secrets = Secrets()
    loader = Loader(
        PluginRegistry(), secrets, sources(secrets, tmp_path), HostAccess(), secrets.redactor, lambda _: None
    )
    loader.load_text(b"ENGINE_CLASS=REST\nURL=http://localhost/\nFUNCTION_NAME=f", tmp_path / "warm.smss")
    return lambda data: loader.load_text(data, tmp_path / "a.smss")


@pytest.mark.parametrize("name", FILES)
def test_the_largest_file_takes_as_much_longer_as_it_is_larger(
    name: str, load: Callable[[bytes], Any], grows_evenly: Any
) -> None:
    def file(size: int) -> bytes:
        return FILES[name](size).encode()[:MAX_FILE_BYTES]

    def prepare(size: int) -> Callable[[], object]:
        data = file(size)
        return lambda: load(data)

    grows_evenly(prepare, MAX_FILE_BYTES // SMALLER, MAX_FILE_BYTES)
    loaded = load(file(MAX_FILE_BYTES))
    assert len(loaded.record.diagnostics) <= MOST_FINDINGS + 3
    assert len(json.dumps([found.to_json() for found in loaded.record.diagnostics])) < 1_000_000
    assert loaded.engine is not None or loaded.record.state in (EngineState.FAILED, EngineState.UNSUPPORTED)
