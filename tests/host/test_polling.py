"""Where inotify runs out, the folder is polled, and the person is told. The limit is the kernel's own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from enginehost.watch import Watch

FOLLOWS = """
import asyncio, sys
from pathlib import Path
from enginehost import Host
from enginehost.errors import EngineHostError

async def until(host, wanted):
    async with asyncio.timeout(60):
        while True:
            try:
                found = await host.call("a")
            except EngineHostError as error:
                found = error.code
            if found == wanted:
                return print(wanted)
            await asyncio.sleep(0.02)

async def main(folder):
    async with Host(folder, None) as host:
        (folder / "a.py").write_text("def a(): return 'dropped'")
        (folder / "a.smss").write_text(
            "ENGINE_CLASS = LocalPython\\nPYTHON_SCRIPT_PATH = a.py\\n"
            "FUNCTION_NAME = a\\nFUNCTION_DESCRIPTION = d\\n")
        await until(host, "dropped")
        (folder / "a.py").write_text("def a(): return 'twice'  ")
        await until(host, "twice")
        (folder / "a.smss").unlink()
        await until(host, "unknown_function")
        print([problem.code for problem in host.problems()])

asyncio.run(main(Path(sys.argv[1])))
"""


def without_inotify(limit: str, *command: str) -> subprocess.CompletedProcess[str]:
    """The command's run in a user namespace whose inotify ``limit`` is none."""
    unshare = shutil.which("unshare")
    lowered = f"echo 0 > /proc/sys/user/{limit}"
    if (
        unshare is None
        or subprocess.run([unshare, "-Ur", "sh", "-c", lowered], capture_output=True).returncode
    ):
        pytest.skip("needs unshare and user namespaces, to take inotify from a process")
    return subprocess.run(
        [unshare, "-Ur", "sh", "-c", f'{lowered}; exec "$@"', "sh", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_files_are_followed_without_inotify(limit: str, tmp_path: Path) -> None:
    done = without_inotify(limit, sys.executable, "-c", FOLLOWS, str(tmp_path))
    assert done.stdout.split("\n") == ["dropped", "twice", "unknown_function", "['polling']", ""], done.stderr


@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_the_doctor_says_that_the_folder_is_polled_and_what_to_raise(limit: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "enginehost", "doctor", str(tmp_path), "--json"]
    findings = json.loads(without_inotify(limit, *command).stdout)["findings"]
    [watching] = [finding for finding in findings if finding["area"] == "watching"]
    assert watching["grade"] == "warning"
    assert limit.removeprefix("max_inotify_") in watching["hint"]
    assert "polled" in watching["hint"]


def test_a_folder_that_may_not_be_read_does_not_end_the_watch_of_others(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    watch = Watch(tmp_path, list[Path])
    watcher = watch._watcher(frozenset({tmp_path, closed, tmp_path / "gone"}))
    assert watcher is not None
    watcher.close()
    assert not watch.polling
