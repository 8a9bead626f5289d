"""No secret that was resolved stands in what the command line says, with ``--debug`` neither."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import TRUSTED, Cli, program, write

SECRET = 'hunter2 "quoted"\nsecond-line-of-it'
PARTS = ("hunter2", "second-line-of-it")
LEAK = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = leak.py
    FUNCTION_DESCRIPTION = Tell it.
    FUNCTION_BIND = {"key": "${secret:k}"}
    PYTHON_FUNCTION_NAME = leak
"""
SCRIPT = """
    import logging, sys, threading

    def fail(key):
        raise KeyError(key)

    def leak(how: str, key: str) -> str:
        if how == "thread":
            thread = threading.Thread(target=fail, args=(key,))
            thread.start()
            thread.join()
        if how == "print":
            print("it is", repr(key), flush=True)
            print("it is", repr(key), file=sys.stderr, flush=True)
            logging.getLogger("leak").error("it is %r", key)
        raise ValueError(f"it is {key}")
"""
REST = """
    ENGINE_CLASS = REST
    URL = http://127.0.0.1:9/x/${secret:k}
    HTTP_METHOD = put it ${secret:k}
    FUNCTION_NAME = rest
    FUNCTION_DESCRIPTION = Ask.
"""


@pytest.fixture(autouse=True)
def secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOST_SECRET_K", SECRET)
    write(folder, {"leak.smss": LEAK, "leak.py": SCRIPT, "rest.smss": REST})


def leaks(text: str) -> list[str]:
    return [line for line in text.splitlines() if any(part in line for part in PARTS)]


@pytest.mark.parametrize("options", [(), ("--json",), ("--stream",)])
@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_a_call_that_fails_tells_no_secret(
    folder: Path, debug: tuple[str, ...], options: tuple[str, ...]
) -> None:
    done = program(*debug, "call", "leak", "how=print", *options, cwd=folder.parent)
    assert done.returncode == 1
    assert leaks(done.stdout + done.stderr) == []
    assert "ValueError: it is ***" in done.stderr
    if options == ("--json",):
        assert json.loads(done.stderr.splitlines()[-1])["error"]["code"] == "execution_failed"
    assert ("Traceback" in done.stderr) is bool(debug)


@pytest.mark.parametrize("how", ["print", "thread"])
def test_what_runs_in_the_process_of_the_command_tells_none_either(folder: Path, how: str) -> None:
    write(folder, {"leak.smss": LEAK + "    PYTHON_ISOLATION = none\n"})
    done = program("call", "leak", f"how={how}", cwd=folder.parent, env=TRUSTED)
    assert done.returncode == 1
    assert leaks(done.stdout + done.stderr) == []
    assert done.stderr.count("it is ***" if how == "print" else "KeyError: '***'") >= 1


@pytest.mark.parametrize(
    "words",
    [
        ("validate",),
        ("validate", "--json"),
        ("validate", "--load"),
        ("doctor",),
        ("list",),
        ("describe", "leak"),
    ],
)
def test_what_is_found_tells_no_secret(folder: Path, cli: Cli, words: tuple[str, ...]) -> None:
    done = cli(*words)
    assert leaks(done.out + done.err) == []


def test_the_token_of_a_caller_is_not_told(folder: Path, cli: Cli) -> None:
    done = cli("--debug", "list", "--url", "http://me:pass-of-mine@127.0.0.1:9", "--token", "tok-en\n1234")
    assert done.code
    assert "pass-of-mine" not in done.err
    assert "tok-en" not in done.err
