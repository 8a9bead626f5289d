"""How deep lists and objects may nest: what docs/reliability.md promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host
from enginehost.errors import InvalidArguments, InvalidRequest, ResultInvalid
from enginehost.json_arguments import read_object

FILE = """
ENGINE_CLASS = LocalPython
PYTHON_SCRIPT_PATH = deep.py
FUNCTION_NAME = deep
FUNCTION_DESCRIPTION = Levels of a list, or a list of so many.
FUNCTION_PARAMETERS = [{"name": "value"}, {"name": "levels", "type": "integer"}]
"""
SCRIPT = """
def deep(value=None, levels=0):
    made = []
    for _ in range(levels - 1):
        made = [made]
    return made if levels else "read"
"""


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


async def test_levels_that_are_promised_pass_and_deeper_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text(SCRIPT)
    (tmp_path / "deep.smss").write_text(FILE)
    async with Host(tmp_path, None, watch=False) as host:
        assert await host.call("deep", {"value": nested(126)}) == "read"
        with pytest.raises(InvalidArguments, match="levels of nesting"):
            await host.call("deep", {"value": nested(200)})
        assert await host.call("deep", {"levels": 128}) == nested(128)
        with pytest.raises(ResultInvalid, match="levels of nesting"):
            await host.call("deep", {"levels": 200})


def test_a_body_nests_a_thousand_levels() -> None:
    head, tail = b'{"v":', b"}"
    read_object(head + b"[" * 1023 + b"]" * 1023 + tail)
    with pytest.raises(InvalidRequest, match="depth limit"):
        read_object(head + b"[" * 1024 + b"]" * 1024 + tail)
