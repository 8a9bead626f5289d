"""What a host that runs tells of its folder and its policy: in the log, and in ``problems()``."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host, HostSettings
from enginehost.errors import ConfigError

SCRIPT = "def f():\n    return 1\n"
FILE = "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = f.py\nFUNCTION_NAME = f\nFUNCTION_DESCRIPTION = d\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "smss"
    made.mkdir()
    (made / "f.smss").write_text(FILE)
    (made / "f.py").write_text(SCRIPT)
    return made


@asynccontextmanager
async def serving(
    folder: Path, caplog: pytest.LogCaptureFixture, **settings: Any
) -> AsyncIterator[tuple[Host, Callable[[str], Any]]]:
    """A host, and a way to wait until the log says something."""
    caplog.set_level(logging.INFO, "enginehost")

    async def said(text: str) -> None:
        async with asyncio.timeout(20):
            while text not in caplog.text:
                await asyncio.sleep(0.01)

    async with Host(folder, None, settings=HostSettings(**settings)) as host:
        yield host, said


async def test_a_folder_that_goes_and_comes_back_is_told(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(folder, caplog) as (_, said):
        shutil.move(folder, folder.parent / "elsewhere")
        await said("removed f.smss")
        assert f"the folder {folder} is gone, and its functions with it" in caplog.text
        shutil.move(folder.parent / "elsewhere", folder)
        await said("loaded f.smss")
        assert f"the folder {folder} is there" in caplog.text


async def test_what_is_named_like_a_file_and_is_none_is_told_at_once_and_holds_nothing_up(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(folder, caplog) as (host, said):
        os.mkfifo(folder / "pipe.smss")
        (folder / "link.smss").symlink_to("nowhere")
        await said("pipe.smss: it is neither a file nor a folder")
        await said("link.smss: the link leads to no file")
        assert len(host.own_problems()) == 2
        (folder / "g.smss").write_text(FILE.replace("= f\n", "= g\nPYTHON_FUNCTION_NAME = f\n"))
        await said("loaded g.smss")
        (folder / "link.smss").unlink()
        (folder / "pipe.smss").unlink()
        (folder / "link.smss").write_text(FILE)
        await said("link.smss: 'f' is also declared by")
        async with asyncio.timeout(20):
            while host.own_problems():
                await asyncio.sleep(0.01)


async def test_a_policy_that_is_read_again_is_told_with_its_default_and_its_rules(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = folder.parent / "policy.yaml"
    policy.write_text("default: call\n")
    async with serving(folder, caplog, policy={"file": policy}) as (host, said):
        policy.write_text("default: view\nrules: [{allow: call, callers: anyone, faces: [htpp]}]\n")
        await said("the policy was read again: default view, 1 rule")
        await said("there is no face 'htpp'")
        policy.write_text("dfault: call\n")
        await said("the policy file is wrong and the old policy stays")
        assert "policy" in [found.code for found in host.own_problems()]
        with pytest.raises(ConfigError):
            host.reload_policy()
        policy.write_text("default: call\n")
        await said("the policy was read again: default call, 0 rules")
        assert host.own_problems() == []


async def test_a_host_without_a_policy_file_says_that_there_is_none_to_read(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(folder, caplog) as (host, _):
        host.reload_policy()
        assert "no policy file is set" in caplog.text
