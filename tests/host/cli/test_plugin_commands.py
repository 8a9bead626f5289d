"""Commands of plugins, and plugins that are broken."""

from __future__ import annotations

import signal
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from .conftest import program, running

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def site(folder: Path) -> dict[str, str]:
    """Three plugins: a good command, a broken one, and one whose hooks do not load."""
    made = folder.parent / "site"
    made.mkdir()

    def add(name: str, entry_points: str) -> None:
        info = made / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)

    add(
        "good", "[enginehost.commands]\nhello = good_cli:hello\nshop = good_cli:shop\nlist = good_cli:hello\n"
    )
    add("broken", "[enginehost.commands]\ncrash = broken_cli:app\nodd = good_cli:NUMBER\n")
    add("hooked", "[enginehost]\nhooked = broken_cli\n[enginehost.engines]\nBad = broken_cli:Engine\n")
    (made / "good_cli.py").write_text(
        "import typer\n"
        "NUMBER = 7\n"
        "def hello(name: str = 'you') -> None:\n"
        "    '''Greet.'''\n"
        "    print('hello', name)\n"
        "shop = typer.Typer()\n"
        "@shop.command()\n"
        "def open() -> None:\n"
        "    print('opened')\n"
        "@shop.command()\n"
        "def fail() -> None:\n"
        "    from enginehost.errors import Overloaded\n"
        "    raise Overloaded('closed')\n"
    )
    (made / "broken_cli.py").write_text("raise RuntimeError('this plugin is broken')\n")
    return {"PYTHONPATH": str(made)}


def test_help_lists_them_without_loading_them(folder: Path, site: dict[str, str]) -> None:
    done = program("--help", cwd=folder.parent, env=site)
    assert done.returncode == 0
    for name in ("hello", "shop", "crash", "odd"):
        assert f" {name} " in done.stdout
    assert "From broken 1.0." in done.stdout
    assert done.stderr == ""


def test_a_function_and_a_typer_app_are_commands(folder: Path, site: dict[str, str]) -> None:
    assert program("hello", "--name", "Ada", cwd=folder.parent, env=site).stdout == "hello Ada\n"
    assert program("shop", "open", cwd=folder.parent, env=site).stdout == "opened\n"
    failed = program("shop", "fail", cwd=folder.parent, env=site)
    assert failed.returncode == 75
    assert failed.stderr == "error: closed\n"


def test_the_help_of_a_command_is_its_own(folder: Path, site: dict[str, str]) -> None:
    shown = program("hello", "--help", cwd=folder.parent, env=site).stdout
    assert "Greet." in shown
    assert "--name" in shown
    assert "From good" not in shown
    assert "open" in program("shop", "--help", cwd=folder.parent, env=site).stdout


def test_the_hosts_own_commands_stay_its_own(folder: Path, site: dict[str, str]) -> None:
    assert program("list", "--json", cwd=folder.parent, env=site).stdout.startswith('[{"name":"add"')


@pytest.mark.parametrize(
    "words", [["list"], ["describe", "add"], ["call", "add", "a=1"], ["tools"], ["validate"], ["doctor"]]
)
def test_a_broken_plugin_stops_no_command(folder: Path, site: dict[str, str], words: list[str]) -> None:
    environment = site | {"ENGINEHOST_HTTP__ADDRESS": "127.0.0.1:0"}
    done = program(*words, cwd=folder.parent, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_plugin_stops_no_run(folder: Path, site: dict[str, str]) -> None:
    with running(folder, env=site) as host:
        assert host.events[-1]["functions"] == 4
        assert "this plugin is broken" in str(host.next_event("problem"))
        with urlopen(Request(f"{host.url}/v1/functions/add", b'{"a": 1}', JSON), timeout=30) as answer:
            assert answer.read() == b'{"result":2}'
        host.signal(signal.SIGTERM)
        assert host.ended() == 0
    assert "Traceback" not in str(host.events)


def test_a_broken_plugin_stops_no_new_function(folder: Path, site: dict[str, str]) -> None:
    for kind in ("python", "rest", "LocalPython"):
        done = program("new", kind, f"my_{kind}", cwd=folder.parent, env=site)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert (folder / f"my_{kind}.smss").exists()
    broken = program("new", "Bad", "mine", cwd=folder.parent, env=site)
    assert broken.returncode == 78
    assert "this plugin is broken" in broken.stderr
    assert "Traceback" not in broken.stderr
    assert not (folder / "mine.smss").exists()


def test_a_broken_command_says_so_itself(folder: Path, site: dict[str, str]) -> None:
    for name, text in (("crash", "this plugin is broken"), ("odd", "neither a Typer app nor a function")):
        done = program(name, cwd=folder.parent, env=site)
        assert done.returncode == 78
        assert text in done.stderr
        assert "Traceback" not in done.stderr


def test_plugins_and_doctor_tell_what_is_broken(folder: Path, site: dict[str, str]) -> None:
    done = program("plugins", cwd=folder.parent, env=site)
    assert done.returncode == 0
    assert done.stdout.count("broken\n") == 3
    assert "this plugin is broken" in done.stderr
    doctor = program("doctor", cwd=folder.parent, env=site | {"ENGINEHOST_HTTP__ADDRESS": "127.0.0.1:0"})
    assert "this plugin is broken" in doctor.stdout
