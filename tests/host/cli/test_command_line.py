"""What all commands share: help, version, completion, colour, errors."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from enginehost import __version__
from enginehost.cli import app as root
from enginehost.cli.failures import REPORTING, report
from enginehost.cli.lazy import OwnCommand
from enginehost.errors import ERROR_TABLE, ConfigError, EngineHostError, error_from_json

from .conftest import Cli, program

COMMANDS = list(root.HostCommands.own)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(name: str) -> None:
    command = OwnCommand(name).load()
    assert command.help.splitlines()[0] == root.HostCommands.own[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(cli: Cli, name: str) -> None:
    for flag in ("--help", "-h"):
        done = cli(name, flag)
        assert done.code == 0
        assert root.HostCommands.own[name] in done.out


def test_help_names_every_command_and_version_is_printed(cli: Cli) -> None:
    done = cli("--help")
    assert done.code == 0
    for name in COMMANDS:
        assert f" {name} " in done.out
    assert cli("--version").out == f"enginehost {__version__}\n"


def test_a_misspelt_command_is_answered_with_the_nearest(cli: Cli) -> None:
    done = cli("lst")
    assert done.code == 2
    assert "did you mean list?" in done.err


def test_completion_offers_commands_and_function_names(folder: Path) -> None:
    def complete(words: str) -> list[str]:
        environment = {
            "_ENGINEHOST_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        return program(cwd=folder.parent, env=environment).stdout.split()

    assert complete("enginehost des") == ["describe"]
    assert complete("enginehost call a") == ["add"]
    assert complete("enginehost describe c") == ["count"]


def test_a_bug_is_no_traceback_unless_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("enginehost.cli.source.require_folder", odd)
    done = cli("list")
    assert done.code == 70
    assert done.err.startswith("error: RuntimeError: odd\nhint: this is a bug")
    assert "Traceback" in cli("--debug", "list").err


def test_debug_shows_where_an_error_came_from(cli: Cli) -> None:
    done = cli("--debug", "call", "fail")
    assert done.code == 1
    assert "Traceback" in done.err


@pytest.mark.parametrize("code", ERROR_TABLE)
def test_every_error_has_the_exit_code_of_the_table(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    REPORTING.reset()
    assert report(error_from_json({"code": code, "message": "m\x1b[31m"})) == ERROR_TABLE[code].exit
    assert capsys.readouterr().err == "error: m\\x1b[31m\n"


def test_a_config_error_shows_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    REPORTING.reset()
    error: EngineHostError = ConfigError("wrong", path="a.smss", line=2, column=3, hint="mend it")
    report(error)
    assert capsys.readouterr().err == "error: a.smss:2:3: wrong\nhint: mend it\n"


def on_a_terminal(*words: str, cwd: Path, env: dict[str, str]) -> str:
    """What a person at a terminal sees."""
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "enginehost", *words],
        cwd=cwd,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **env},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(terminal, 65536):
            seen += chunk
    except OSError:  # Linux: the other end is closed
        pass
    finally:
        os.close(terminal)
        process.wait(30)
    return seen.decode()


def test_a_terminal_gets_colour_and_indented_json(folder: Path) -> None:
    seen = on_a_terminal("call", "echo", "value:=[1]", cwd=folder.parent, env={"NO_COLOR": ""})
    assert "\033[" in seen
    left = seen.rpartition("\033[2K")[2]  # behind what is told and erased where the call takes its time
    assert len(left.splitlines()) == 3


def test_no_color_is_heeded(folder: Path) -> None:
    for words in (["call", "echo", "value:=[1]"], ["list"], ["doctor"], ["call", "nobody"]):
        seen = on_a_terminal(*words, cwd=folder.parent, env={"NO_COLOR": "1"})
        assert seen
        assert "\033[3" not in seen


def test_a_description_cannot_steer_the_terminal(folder: Path) -> None:
    text = (folder / "add.smss").read_text(encoding="utf-8")
    (folder / "add.smss").write_text(
        text.replace("Add two", "Add \\u001b]0;owned\\u0007 [red]two"), encoding="utf-8"
    )
    for words in (["list"], ["describe", "add"]):
        seen = on_a_terminal(*words, cwd=folder.parent, env={})
        assert "\033]0;" not in seen
        assert "[red]" in seen
