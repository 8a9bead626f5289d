"""A pipe, a device or a folder in the place of a file that a key names is called what it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from enginehost import Host
from enginehost.engine import EngineState

FUNCTION = "FUNCTION_NAME = f\nFUNCTION_DESCRIPTION = d\n"
FILES = {
    "PYTHON_SCRIPT_PATH": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = {}\n" + FUNCTION,
    "PYTHON_FILE_NAME": "ENGINE_CLASS = LocalPython\nPYTHON_FILE_NAME = ../{}\n" + FUNCTION,
    "ENGINE_CLASS": "ENGINE_CLASS = odd:Engine\n" + FUNCTION,
    "REACTOR_CLASS_NAME": "ENGINE_CLASS = Reactor\nREACTOR_CLASS_NAME = odd.Engine\n" + FUNCTION,
    "OPENAPI_SPEC": "ENGINE_CLASS = OpenAPI\nOPENAPI_SPEC = {}\n",
    "COMMAND": 'ENGINE_CLASS = Command\nCOMMAND = ["./{}"]\n' + FUNCTION,
}


async def reason(folder: Path, text: str) -> str:
    (folder / "a.smss").write_text(text)
    async with Host(folder, None, watch=False) as host:
        record = host.catalog.records["a"]
        assert record.state is EngineState.FAILED
        return record.reason


@pytest.mark.parametrize("key", FILES)
async def test_a_pipe_is_no_regular_file(tmp_path: Path, key: str) -> None:
    os.mkfifo(tmp_path / "odd.py")
    (tmp_path / "a").mkdir()
    assert "odd.py" in (told := await reason(tmp_path, FILES[key].format("odd.py")))
    assert "is no regular file" in told


@pytest.mark.parametrize("key", ["PYTHON_SCRIPT_PATH", "OPENAPI_SPEC"])
async def test_so_is_a_device_and_a_folder_is_a_folder(tmp_path: Path, key: str) -> None:
    assert "zero is no regular file" in await reason(tmp_path, FILES[key].format("/dev/zero"))
    (tmp_path / "inner").mkdir()
    assert f"{key}: inner is a folder" in await reason(tmp_path, FILES[key].format("inner"))
    assert f"{key}: there is no file none.py" in await reason(tmp_path, FILES[key].format("none.py"))
