"""What JSON cannot say, NaN and half a surrogate pair, where the declared type would take it.

Over HTTP, see ``serve/test_odd_values.py``; of the command line, ``cli/test_functions.py``.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host, HostSettings
from enginehost.errors import InvalidArguments, ResultInvalid

HALF = "\ud800"
FILE = """
ENGINE_CLASS = LocalPython
PYTHON_SCRIPT_PATH = tools.py
PYTHON_ISOLATION = {isolation}
PYTHON_FUNCTION_NAME = echo
FUNCTION_NAME = {isolation}
FUNCTION_PARAMETERS = [{{"name": "any"}}, {{"name": "text", "type": "string"}}, \\
    {{"name": "number", "type": "number"}}, \\
    {{"name": "list", "type": "array", "items": {{"type": "number"}}}}]
"""
ECHO = """
async def echo(**given):
    (value,) = given.values()
    return "\\ud800" if value == "half, please" else value
"""


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    """One function twice: inside the host (``none``) and in a worker process (``process``)."""
    folder = tmp_path / "smss"
    folder.mkdir()
    (folder / "tools.py").write_text(ECHO)
    for isolation in ("none", "process"):
        (folder / f"{isolation}.smss").write_text(FILE.format(isolation=isolation))
    settings = HostSettings(in_process_python=True, state_dir=tmp_path / "state")
    async with Host(folder, None, settings=settings, watch=False) as host:
        yield host


async def test_a_function_inside_the_host_gets_python_values_as_they_are(host: Host) -> None:
    thing = object()
    for arguments in ({"text": HALF}, {"any": HALF}, {"any": {HALF: [thing]}}, {"any": thing}):
        (given,) = arguments.values()
        assert await host.call("none", arguments) is given
    assert math.isnan(await host.call("none", {"any": math.nan}))
    assert await host.call("none", {"any": "half, please"}) == HALF


async def test_a_worker_process_gets_nan_as_it_is_and_no_half_of_a_pair(host: Host) -> None:
    assert math.isnan(await host.call("process", {"any": math.nan}))
    assert await host.call("process", {"any": [math.inf]}) == [math.inf]
    for arguments, pointer in (
        ({"text": HALF}, "/text"),
        ({"any": HALF}, "/any"),
        ({"any": {"a": [HALF]}}, "/any/a/0"),
        ({"any": {HALF: 1}}, "/any"),
    ):
        with pytest.raises(InvalidArguments, match="lone surrogate") as refused:
            await host.call("process", arguments)
        assert [error["pointer"] for error in refused.value.detail["errors"]] == [pointer]
    with pytest.raises(ResultInvalid, match="lone surrogate"):
        await host.call("process", {"any": "half, please"})
    assert await host.call("process", {"text": "\U0001f600"}) == "\U0001f600"


@pytest.mark.parametrize("name", ["none", "process"])
async def test_nan_is_no_number_where_a_number_is_declared(host: Host, name: str) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"number": math.nan}, "/number"),
        ({"number": -math.inf}, "/number"),
        ({"list": [1, math.nan]}, "/list/1"),
    ]
    for arguments, pointer in cases:
        with pytest.raises(InvalidArguments, match="is no JSON number") as refused:
            await host.call(name, arguments)
        assert [error["pointer"] for error in refused.value.detail["errors"]] == [pointer]
