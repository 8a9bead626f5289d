"""Words that make no sense are told as every other error is, as text and as JSON."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from enginehost.cli.failures import REPORTING, report
from enginehost.errors import InvalidArguments

from .conftest import Cli, write

WRONG = [
    (["list", "--bogus"], "no such option: --bogus", "did you mean --bus, --tags?"),
    (["list", "a", "b"], "got unexpected extra argument", "`enginehost list --help`"),
    (["lst"], "there is no command 'lst'", "did you mean list?"),
    (["--bogus"], "no such option: --bogus", "`enginehost --help`"),
    (["policy", "bogus"], "no such command 'bogus'", "`enginehost policy --help`"),
    (["call"], "missing argument", "`enginehost call --help`"),
    (["call", "add", "--timeout", "x"], "--timeout has to be a number, and is 'x'", "`enginehost call"),
    (["call", "add", "--timeout", "0"], "--timeout has to be at least 0.001", "`enginehost call --help`"),
    (["new", "python"], "missing argument", "`enginehost new --help`"),
    (
        ["new", "nosuch", "x"],
        "no plugin provides the engine class 'nosuch'",
        "there are python, rest, reactor",
    ),
    (["validate", "--format", "xml"], "--format: 'xml' is not one of 'text', 'json'", "`enginehost validate"),
]


@pytest.mark.parametrize(("words", "message", "hint"), WRONG, ids=[" ".join(words) for words, _, _ in WRONG])
def test_a_mistake_is_an_error_with_a_hint(cli: Cli, words: list[str], message: str, hint: str) -> None:
    done = cli(*words)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith(f"error: {message}")
    assert hint in done.err
    assert "│" not in done.err


@pytest.mark.parametrize(("words", "message", "hint"), WRONG, ids=[" ".join(words) for words, _, _ in WRONG])
def test_a_mistake_is_json_where_json_is_asked_for(
    cli: Cli, words: list[str], message: str, hint: str
) -> None:
    done = cli(*words, "--json")
    assert done.code == 2
    assert done.error["code"] == "invalid_request"
    assert done.error["message"].startswith(message)
    assert hint in done.error["detail"]["hint"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "name must not be empty"),
        ("local", "name: 'local' is a name that the host itself gives to callers"),
    ],
)
def test_a_token_without_a_name_of_its_own_is_a_mistake(cli: Cli, name: str, message: str) -> None:
    done = cli("token", name)
    assert done.code == 2
    assert done.err.startswith(f"error: {message}")


def test_an_option_without_its_value_is_told(cli: Cli) -> None:
    done = cli("list", "--json", "--config")
    assert done.code == 2
    assert done.error["message"] == "option '--config' requires an argument"


def test_json_behind_the_end_of_the_options_is_a_word_as_any_other(cli: Cli) -> None:
    assert cli("call", "add", "--", "--json").err.startswith("error: '--json' is no argument")


@pytest.mark.parametrize(
    "words",
    [
        ["add", "a=x", "--json"],
        ["--json", "add", "a=x"],
        ["add", "--json", "a=x"],
        ["add", "--json", '{"a": "x"}'],
        ["add", '--json={"a": "x"}'],
        ["add", "--json", ' {"b": 1}', "a=x"],
    ],
)
def test_errors_of_a_call_are_json_whatever_way_the_arguments_take(cli: Cli, words: list[str]) -> None:
    done = cli("call", *words)
    assert done.code == 4
    assert done.error["detail"]["errors"][0]["pointer"] == "/a"


def test_json_that_stands_alone_gives_no_arguments(cli: Cli) -> None:
    assert cli("call", "add", "a=1", "--json").json == 2
    assert cli("call", "add", "a=1", "--json", "b=2").json == 3
    empty = cli("call", "add", "--json", "")
    assert empty.code == 2
    assert "'' is no argument" in empty.error["message"]
    assert "--json '{…}'" in empty.error["detail"]["hint"]


def test_arguments_keep_their_order(cli: Cli, folder: Path) -> None:
    write(
        folder,
        {
            "names.smss": """
                ENGINE_CLASS = LocalPython
                PYTHON_SCRIPT_PATH = names.py
                FUNCTION_NAME = names
                FUNCTION_DESCRIPTION = The names of what came.
                FUNCTION_PARAMETERS = [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]
            """,
            "names.py": "async def names(**given):\n    return list(given)\n",
        },
    )
    assert cli("call", "names", "d=1", "b:=[1]", "c=2", "a:=3").json == ["d", "b", "c", "a"]
    assert cli("call", "names", "--json", '{"c": 1, "a": 2}', "b:=1").json == ["c", "a", "b"]


@pytest.mark.parametrize(
    "words",
    [
        ["list", "smss"],
        ["tools", "--folder", "smss"],
        ["describe", "add", "-f", "smss"],
        ["call", "add", "a=1", "--config", "enginehost.yaml"],
        ["doctor", "smss"],
    ],
)
def test_a_folder_beside_a_url_is_refused_and_not_passed_over(cli: Cli, words: list[str]) -> None:
    done = cli(*words, "--url", "http://127.0.0.1:1")
    assert done.code == 2
    assert "has no effect beside --url" in done.err


def test_two_folders_are_refused(cli: Cli) -> None:
    done = cli("list", "smss", "--folder", "other")
    assert done.code == 2
    assert "two folders are given" in done.err


def test_a_value_that_an_option_does_not_take_is_told_without_its_library(cli: Cli) -> None:
    for words in (["--domain", "900"], ["--drain", "x"], ["--log", "xml"]):
        done = cli("run", *words)
        assert done.err.startswith(f"error: {words[0]}")
        assert "Value error" not in done.err
        assert "Input should" not in done.err


def test_the_arguments_as_a_whole_are_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    REPORTING.reset()
    errors = [{"pointer": "/a", "message": "wrong"}, {"pointer": "", "message": "b is missing"}]
    report(InvalidArguments("f at /a: wrong (and 1 more)", errors=errors))
    assert capsys.readouterr().err.splitlines()[1:] == ["  arguments: b is missing"]


@pytest.mark.parametrize(
    "words", [("list",), ("call", "stream", "--stream"), ("--help",), ("tools", "--json")]
)
def test_a_command_whose_reader_has_gone_ends_quietly_as_sigpipe_would(
    folder: Path, words: tuple[str, ...]
) -> None:
    script = "def stream():\n    while True:\n        yield 'x' * 1000\n"
    text = "ENGINE_CLASS = LocalPython\nFUNCTION_NAME = stream\nPYTHON_SCRIPT_PATH = stream.py\n"
    write(folder, {"stream.py": script, "stream.smss": text + "FUNCTION_PARAMETERS = []\n"})
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "enginehost", *words],
        cwd=folder.parent,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
