"""LocalPython: the script runs in the Python that its file names, or that is built for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import textwrap
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host, HostSettings
from enginehost.engine import EngineState, HostAccess
from enginehost.errors import ConfigError, EngineUnavailable
from enginehost_engines.environments import _Output, build, environment_for
from enginehost_engines.interpreters import HOST_INTERPRETER, Interpreter, environment_of, find_interpreter
from enginehost_engines.requirements import read_requirements, without_credentials

from .conftest import Engines, alive, eventually

SCRIPT = """
import asyncio, os, sys
from dataclasses import dataclass
from datetime import date
from typing import List, Optional

@dataclass
class Point:
    x: int
    y: int = 1

def where(extra: Optional[List[int]] = None):
    import importlib.util
    return {
        "version": list(sys.version_info[:2]),
        "prefix": sys.prefix,
        "orjson": importlib.util.find_spec("orjson") is not None,
        "variables": sorted(key for key in os.environ if key.startswith(("ENGINEHOST_", "PYTHONPATH"))),
        "activated": os.environ.get("VIRTUAL_ENV", ""),
    }

def add(day: date, point: Point, tags: "set[str]") -> "list":
    return [day.toordinal(), point.x + point.y, sorted(tags), {1, 2}, b"x", (1, 2.5), 2**70, float("inf")]

async def wait(n):
    await asyncio.sleep(0)
    return n

def items(n):
    for i in range(n):
        print("item", i)
        yield i

async def items_async(n):
    for i in range(n):
        yield i

def fail():
    raise ValueError("for a reason")
"""


def foreign() -> Iterator[Any]:
    """The oldest and the newest other Python of this machine."""
    folder = Path.home() / ".pyenv" / "versions"
    found = [folder / version / "bin" / "python" for version in ("3.9.18", "3.10.13", "3.13.0")]
    there = [path for path in found if path.exists()]
    yield from (pytest.param(path, id=path.parent.parent.name) for path in there)
    if not there:
        yield pytest.param(None, marks=pytest.mark.skip(reason="there is no other Python here"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with nothing in it, not even pip."""
    folder = tmp_path_factory.mktemp("bare") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder


async def test_a_virtual_environment_needs_nothing_of_ours(
    engines: Engines, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("ENGINEHOST_X", "y")
    found = await engines.call(engines.make("where", script=SCRIPT, python_venv=str(bare)))
    assert found["version"] == list(sys.version_info[:2])
    assert (found["prefix"], found["activated"]) == (str(bare), str(bare))
    assert not found["orjson"]
    assert found["variables"] == []


@pytest.mark.parametrize("python", list(foreign()))
async def test_another_version_of_python_does_all_that_ours_does(engines: Engines, python: Path) -> None:
    def make(name: str, **context: Any) -> Any:
        return engines.make(name, script=SCRIPT, python_venv=str(python), **context)

    assert (await engines.call(make("where")))["prefix"] == str(python.parent.parent)
    arguments = {"day": "2026-01-31", "point": {"x": 2}, "tags": ["b", "a", "b"]}
    answer = await engines.call(make("add"), **arguments)
    assert answer == [739647, 3, ["a", "b"], {1, 2}, b"x", (1, 2.5), 2**70, float("inf")]
    assert await engines.call(make("wait"), n=3) == 3
    assert [item async for item in engines.stream(make("items"), n=40)] == list(range(40))
    assert [item async for item in engines.stream(make("items_async"), n=40)] == list(range(40))
    with pytest.raises(Exception, match="for a reason") as caught:
        await engines.call(make("fail"))
    assert "raise ValueError" in str(caught.value.__cause__)
    made = engines.make(
        "made",
        script="exec('async def made(): return 1')",
        python_venv=str(python),
        init_function_engine="x = 'it'; y = b'1'",
    )
    assert await engines.call(made) == 1


def test_a_file_names_its_interpreter_beside_it(tmp_path: Path, bare: Path) -> None:
    (tmp_path / "env").symlink_to(bare)
    found = find_interpreter("env", tmp_path)
    assert found.path == tmp_path / "env" / "bin" / "python"
    assert found.files == (tmp_path / "env" / "pyvenv.cfg",)
    assert find_interpreter("env/bin/python", tmp_path).path == found.path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "there is no folder or interpreter nothing"),
        ("empty", "the folder empty is no virtual environment"),
        ("text", "text is no program"),
        ("old", "it is Python 3.8; scripts run on Python 3.9 and newer"),
        ("python3", "it is Python 2.7; scripts run on Python 3.9 and newer"),
    ],
)
def test_what_is_no_interpreter_is_told(tmp_path: Path, bare: Path, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("x")
    (tmp_path / "python2.7").write_text("")
    (tmp_path / "python2.7").chmod(0o700)
    (tmp_path / "python3").symlink_to("python2.7")
    shutil.copytree(bare, tmp_path / "old", symlinks=True)
    (tmp_path / "old" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.8.18\n")
    with pytest.raises(ConfigError) as caught:
        find_interpreter(name, tmp_path)
    assert caught.value.message == f"PYTHON_VENV: {message}"
    assert caught.value.key == "PYTHON_VENV"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("#!/bin/sh\necho 2.7\n", "it is Python 2.7"),
        ("#!/bin/sh\nexit 1\n", "it did not say its version"),
        ("#!/nowhere/python\n", "it cannot be started"),
    ],
)
async def test_an_interpreter_that_cannot_run_scripts_fails_the_engine(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    path = tmp_path / "python"
    path.write_text(program)
    path.chmod(stat.S_IRWXU)
    failed: list[str] = []
    told: list[None] = []
    context = {"failed": lambda reason, cause: failed.append(reason), "changed": lambda: told.append(None)}
    monkeypatch.setattr("enginehost_engines.local_python.RETRY_ALONE_SECONDS", (0.05, 1.0))
    engine = engines.make("where", script=SCRIPT, python_venv="python", context=context)
    with pytest.raises(EngineUnavailable, match=why):
        await engines.call(engine)
    assert len(failed) == 1
    assert not told
    path.unlink()
    path.symlink_to(sys.executable)
    await eventually(lambda: bool(told))  # it is tried again without a call
    assert (await engines.call(engine))["version"] == list(sys.version_info[:2])


def test_the_hosts_own_variables_stay_behind(bare: Path) -> None:
    environ = {"PATH": "/bin", "PYTHONHOME": "/x", "ENGINEHOST_SECRET_A": "s", "HOME": "/h"}
    assert environment_of(Path(sys.executable), environ) == {"PATH": "/bin", "PYTHONHOME": "/x", "HOME": "/h"}
    found = environment_of(bare / "bin" / "python", environ)
    assert found == {"PATH": f"{bare}/bin:/bin", "HOME": "/h", "VIRTUAL_ENV": str(bare)}


async def test_an_environment_that_is_made_anew_takes_over_and_running_calls_end_in_the_old_one(
    tmp_path: Path, bare: Path
) -> None:
    (tmp_path / "env").symlink_to(bare)
    other = tmp_path / "other"
    venv.create(other, with_pip=False, symlinks=True)
    go = tmp_path / "go"
    script = """
        import os, sys, time
        HERE = os.path.realpath(sys.prefix)
        def where(wait=""):
            "Where it runs."
            if wait:
                open(wait + ".begun", "w").close()
            while wait and not os.path.exists(wait):
                time.sleep(0.01)
            return HERE
    """
    (tmp_path / "where.py").write_text(textwrap.dedent(script))
    text = "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=where.py\nPYTHON_FUNCTION_NAME=*\nPYTHON_VENV=env"
    (tmp_path / "where.smss").write_text(text)
    async with Host(tmp_path, None) as host:
        old = asyncio.create_task(host.call("where", {"wait": str(go)}))
        await eventually(Path(f"{go}.begun").exists)
        before = host.catalog.records["where"].engine
        (tmp_path / "new").symlink_to(other)
        (tmp_path / "new").replace(tmp_path / "env")
        (tmp_path / "where.smss").write_text(text + "/bin/python")
        await eventually(lambda: host.catalog.records["where"].engine is not before)
        assert await host.call("where", {}) == str(other)
        go.touch()
        assert await old == str(bare)


# requirements


def wheel(folder: Path, name: str = "greeting", text: str = "WORD = 'hello'") -> Path:
    """A package that can be installed without a network."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(
            f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )
    return path


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installers find no index."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:sesame@127.0.0.1:9/simple")
    monkeypatch.setenv("UV_INDEX_URL", "http://user:sesame@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")


def write(folder: Path, requirements: str, **files: str) -> None:
    """A file whose function needs a package."""
    (folder / "greet.py").write_text(
        "import greeting, sys\ndef greet():\n    'Greet.'\n    return greeting.WORD\n"
    )
    text = "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=greet.py\nFUNCTION_NAME=greet\n"
    text += f"PYTHON_REQUIREMENTS={requirements}\n"
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    (folder / "greet.smss").write_text(text)


@pytest.mark.usefixtures("offline")
async def test_what_a_script_needs_is_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, state = tmp_path / "smss", tmp_path / "state"
    folder.mkdir()
    wheel(folder)
    write(folder, "needs.txt", needs_txt="./greeting-1.0-py3-none-any.whl\n")
    settings = HostSettings(state_dir=state)
    async with Host(folder, None, settings=settings, watch=False) as host:
        assert host.problems() == []
        assert await host.call("greet", {}) == "hello"
    (built,) = [path for path in (state / "python").iterdir() if path.is_dir()]
    before = (built / "enginehost.json").stat().st_mtime_ns
    monkeypatch.setattr("enginehost_engines.environments._commands", lambda _: [["/nowhere"]])
    async with Host(folder, None, settings=settings, watch=False) as host:
        assert await host.call("greet", {}) == "hello"
    assert (built / "enginehost.json").stat().st_mtime_ns == before


@pytest.mark.usefixtures("offline")
async def test_a_host_without_network_says_so_and_keeps_every_secret(tmp_path: Path) -> None:
    folder, state = tmp_path / "smss", tmp_path / "state"
    folder.mkdir()
    write(folder, '["greeting==9"]')
    (folder / "other.py").write_text("def other(): 'Other.'; return 1")
    (folder / "other.smss").write_text(
        "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=other.py\nFUNCTION_NAME=other"
    )
    lines: list[str] = []
    settings = HostSettings(state_dir=state)
    with (tmp_path / "log").open("w") as log:
        async with Host(folder, None, settings=settings, watch=False, log=log) as host:
            assert await host.call("other", {}) == 1
            with pytest.raises(EngineUnavailable, match="PYTHON_REQUIREMENTS cannot be installed") as caught:
                await host.call("greet", {})
            lines += [found.message for found in host.problems()]
    assert "index cannot be reached" in caught.value.message
    assert str(tmp_path) not in caught.value.message
    assert [path for path in (state / "python").iterdir() if path.is_dir()] == []
    shown = "\n".join([*lines, str(caught.value), (tmp_path / "log").read_text()])
    assert "sesame" not in shown
    assert "Retrying" not in caught.value.message
    assert "Looking in" not in caught.value.message


async def test_a_look_at_a_folder_installs_nothing_and_tells_a_fresh_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = tmp_path / "tries"
    script = f"echo x >> {tries}; echo ERROR: no such package; exit 1"
    monkeypatch.setattr("enginehost_engines.environments._commands", lambda _: [["/bin/sh", "-c", script]])
    folder = tmp_path / "smss"
    folder.mkdir()
    write(folder, '["greeting"]')
    settings = HostSettings(state_dir=tmp_path / "state")

    def look() -> Host:
        return Host(folder, None, settings=settings, watch=False, ahead=False)

    async with look() as host:
        assert host.entry("greet").record.shown_reason == "the first call installs its requirements"
        assert not tries.exists()
        for _ in range(3):
            with pytest.raises(EngineUnavailable, match="no such package"):
                await host.call("greet", {})
    for _ in range(2):
        async with look() as host:
            with pytest.raises(EngineUnavailable, match="no such package"):
                await host.prepare("greet")
            (told,) = host.problems()
            assert told.code == "open-failed"
    assert tries.read_text() == "x\nx\nx\n"
    (note,) = (tmp_path / "state" / "python").glob("*.failed")
    os.utime(note, (0, 0))  # the failure is old: it is tried again by who calls
    async with look() as host:
        assert [found.code for found in host.problems()] == ["failed-before"]
        with pytest.raises(EngineUnavailable, match="no such package"):
            await host.prepare("greet")
    assert tries.read_text() == "x\n" * 4


def test_what_an_installer_says_is_told_without_noise() -> None:
    output = _Output(lambda _: None)
    lines = [
        "Looking in indexes: https://index.example/simple",
        "Collecting x",
        "WARNING: Retrying (Retry(total=1)) after connection broken by '<a.B object at 0x7f1>: refused'",
        "  preparing",
        "ERROR: Could not install <pip.Req object at 0x7f12>: refused",
        *(f"line {number}" for number in range(20)),
        "   ^~~~~",
        "[notice] A new release is there",
    ]
    for line in lines:
        output._hear(line.encode())
    told = output.explained("pip")
    assert told.startswith(
        "PYTHON_REQUIREMENTS cannot be installed: pip says: ERROR: Could not install refused | line 1"
    )
    assert told.endswith("line 18 | line 19")


async def test_while_requirements_are_installed_the_engine_is_loading_and_others_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "go"
    wait = f"while [ ! -e {mark} ]; do sleep 0.02; done"
    script = f"echo Collecting greeting; {wait}; echo no such package >&2; exit 1"
    monkeypatch.setattr("enginehost_engines.environments._commands", lambda _: [["/bin/sh", "-c", script]])
    folder = tmp_path / "smss"
    folder.mkdir()
    write(folder, '["greeting"]')
    async with Host(folder, None, settings=HostSettings(state_dir=tmp_path / "state")) as host:

        def shown() -> Any:
            return host.catalog.records["greet"]

        await eventually(lambda: "Collecting" in shown().reason)
        assert shown().state is EngineState.LOADING
        assert shown().reason == "installing requirements: Collecting greeting"
        with pytest.raises(EngineUnavailable, match="installing requirements"):
            await host.call("greet", {})
        mark.touch()
        await eventually(lambda: shown().state is EngineState.FAILED)
        assert "no such package" in shown().reason


async def test_a_build_that_is_given_up_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pid"
    script = f"mkdir $0; echo $$ > {pids}.new; mv {pids}.new {pids}; sleep 100"
    monkeypatch.setattr(
        "enginehost_engines.environments._commands",
        lambda made: [["/bin/sh", "-c", script, str(made.folder)]],
    )
    wanted = read_requirements(["x"], tmp_path)
    environment = environment_for(wanted, HOST_INTERPRETER, tmp_path)
    tasks = [asyncio.create_task(build(environment, lambda _: None)) for _ in range(2)]
    await eventually(pids.exists)
    pid = int(pids.read_text())
    tasks[0].cancel()
    await asyncio.gather(tasks[0], return_exceptions=True)
    assert alive(pid)  # the other one waits
    assert environment.folder.exists()
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not alive(pid)
    assert not environment.folder.exists()


async def test_two_hosts_build_one_environment_once(tmp_path: Path) -> None:
    code = """
        import asyncio, sys
        from pathlib import Path
        from enginehost_engines import environments
        from enginehost_engines.interpreters import HOST_INTERPRETER
        from enginehost_engines.requirements import read_requirements
        folder = Path(sys.argv[1])
        step = "mkdir $0; echo built >> $1; sleep 0.3"
        environments._commands = lambda made: [["/bin/sh", "-c", step, str(made.folder), str(folder / "log")]]
        made = environments.environment_for(read_requirements(["x"], folder), HOST_INTERPRETER, folder)
        asyncio.run(environments.build(made, print))
        print("is built", made.is_built)
    """
    both = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=60)[0] for process in both]
    assert all("is built True" in answer for answer in answers)
    assert (tmp_path / "log").read_text() == "built\n"


async def test_a_half_built_environment_is_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "enginehost_engines.environments._commands", lambda made: [["/bin/mkdir", str(made.folder)]]
    )
    environment = environment_for(read_requirements(["x"], tmp_path), HOST_INTERPRETER, tmp_path)
    environment.folder.mkdir(parents=True)
    (environment.folder / "half").touch()
    await build(environment, lambda _: None)
    assert environment.is_built
    assert not (environment.folder / "half").exists()


def test_an_environment_is_known_by_its_content(tmp_path: Path, bare: Path) -> None:
    (tmp_path / "a.txt").write_text("-r b.txt\nx\n")
    (tmp_path / "b.txt").write_text("y\n")
    first = read_requirements("a.txt", tmp_path)
    assert {path.name for path in first.files} == {"a.txt", "b.txt"}
    host, other = HOST_INTERPRETER, Interpreter(bare / "bin" / "python", bare / "pyvenv.cfg")
    assert first.key(host) != first.key(other)
    (tmp_path / "b.txt").write_text("z\n")
    assert read_requirements("a.txt", tmp_path).key(host) != first.key(host)
    one, two = read_requirements(["x", "y"], tmp_path), read_requirements(["y", "x"], tmp_path / "..")
    assert one.key(host) == two.key(host)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("none.txt", "there is no file none.txt"),
        ("empty.txt", "empty.txt names nothing to install"),
        ([], "the list is empty"),
        (["--index-url=http://x", "y"], "a list holds requirements alone"),
        (["iniconfig; os.system(1)"], "'iniconfig; os.system(1)' is no requirement: "),
        ("bad.txt", "'x=1' is no requirement: "),
        ("binary.txt", "binary.txt cannot be read: it is not UTF-8"),
    ],
)
def test_unusable_requirements_are_told(tmp_path: Path, given: Any, message: str) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "bad.txt").write_text("x=1  # as a shell has it\n")
    with pytest.raises(ConfigError) as caught:
        read_requirements(given, tmp_path)
    assert caught.value.message.startswith(f"PYTHON_REQUIREMENTS: {message}")


def test_all_that_installers_take_is_left_to_them(tmp_path: Path) -> None:
    lines = """
        a>=1,<2; python_version < "3.13"   # a comment
        b[c] @ https://me:secret@index.example/b.zip
        git+https://index.example/d@main#egg=d
        ./e
        f-1.0-py3-none-any.whl
        ${G}
        h==1 --hash=sha256:00 \\
            --hash=sha256:11
        -e .
    """
    (tmp_path / "r.txt").write_text(textwrap.dedent(lines))
    assert read_requirements("r.txt", tmp_path).files == (tmp_path / "r.txt",)


def test_credentials_of_an_index_are_known_and_taken_out(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("--index-url https://me:sesame@index.example/simple\nx\n")
    assert set(read_requirements("r.txt", tmp_path).secrets()) == {"me:sesame", "me", "sesame"}
    assert without_credentials("see https://me:sesame@index.example/x") == "see https://***@index.example/x"


async def test_the_host_runs_no_script_of_another_python(engines: Engines, bare: Path) -> None:
    access = HostAccess(in_process_python=True)
    with pytest.raises(ConfigError, match="PYTHON_ISOLATION"):
        engines.make("where", script=SCRIPT, python_venv=str(bare), python_isolation="none", access=access)
