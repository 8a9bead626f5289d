"""A caller's value should be an argument of a program, never a part of a script: the file is warned of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from enginehost.host import Host


async def warning(folder: Path, command: list[Any], parameters: Any, **keys: str) -> tuple[str, str]:
    """What is found in a file with this command: the message, and the hint."""
    lines = {"ENGINE_CLASS": "Command", "COMMAND": json.dumps(command), "FUNCTION_NAME": "f"}
    lines |= {"FUNCTION_DESCRIPTION": "d", "FUNCTION_PARAMETERS": json.dumps(parameters), **keys}
    text = "".join(f"{key} = {value}\n".replace("\\", "\\\\") for key, value in lines.items())
    (folder / "f.smss").write_text(text)
    async with Host(folder, None, watch=False) as host:
        found = [one for one in host.problems() if one.code == "value-as-code"]
    return (found[0].message, found[0].hint) if found else ("", "")


WORD = [{"name": "k", "type": "string"}]
CODE: list[tuple[list[Any], str]] = [
    (["sh", "-c", "echo {k}"], "sh"),
    (["sh", "-c", "{k}"], "sh"),
    (["/bin/bash", "-o", "pipefail", "-euc", "grep '{k}' x | wc"], "bash"),
    (["dash", "-c", "-e", "echo {k}"], "dash"),
    (["zsh", "-lc", "echo {k}"], "zsh"),
    (["ksh", "-c", "echo {k}"], "ksh"),
    (["sh", ["-c", "echo {k}"]], "sh"),
    (["env", "A=1", "bash", "-c", "echo {k}"], "bash"),
    (["python3.11", "-I", "-W", "ignore", "-c", "print({k})"], "python3.11"),
    (["python", "-cprint({k})"], "python"),
    (["perl", "-ne", "print if /{k}/"], "perl"),
    (["perl", "-e", "1;", "-e", "print '{k}'"], "perl"),
    (["ruby", "-e", "puts '{k}'"], "ruby"),
    (["node", "--eval", "console.log('{k}')"], "node"),
    (["node", "--eval=console.log('{k}')"], "node"),
    (["node", "-p", "'{k}'"], "node"),
    (["Rscript", "-e", "print('{k}')"], "Rscript"),
    (["php", "-r", "echo '{k}';"], "php"),
    (["cmd", "/s", "/c", "dir", "{k}"], "cmd"),
    (["cmd.exe", "/C", "dir {k}"], "cmd.exe"),
    (["powershell", "-NoProfile", "-Command", "Get-Item", "{k}"], "powershell"),
    (["pwsh", "-c", "Get-Item {k}"], "pwsh"),
]
NONE: list[list[Any]] = [
    ["sh", "-c", 'echo "$1"', "sh", "{k}"],
    ["sh", "-c", "echo {{k}}", "sh", "{k}"],
    ["sh", "script.sh", "-c", "{k}"],
    ["bash", "-x", "script.sh", "{k}"],
    ["python3", "-c", "import sys; print(sys.argv[1])", "{k}"],
    ["python3", "script.py", "-c", "{k}"],
    ["perl", "-e", "print $ARGV[0]", "{k}"],
    ["node", "-e", "console.log(process.argv[1])", "{k}"],
    ["pwsh", "-File", "script.ps1", "{k}"],
    ["grep", "-c", "{k}"],
    ["grep", "-e", "{k}", "sh"],
]


@pytest.mark.parametrize(("command", "program"), CODE, ids=[" ".join(map(str, one)) for one, _ in CODE])
async def test_a_value_in_a_script_is_a_warning(tmp_path: Path, command: list[Any], program: str) -> None:
    message, hint = await warning(tmp_path, command, WORD)
    assert message == f"what a caller gives for k is run as code by {program}"
    assert hint


@pytest.mark.parametrize("command", NONE, ids=[" ".join(one) for one in NONE])
async def test_a_value_that_is_an_argument_is_none(tmp_path: Path, command: list[Any]) -> None:
    assert await warning(tmp_path, command, WORD) == ("", "")


async def test_the_hint_of_a_shell_is_a_command_that_is_safe(tmp_path: Path) -> None:
    _, hint = await warning(tmp_path, ["sh", "-c", "echo {k}"], WORD)
    assert hint.endswith(r'["sh", "-c", "… \\"$1\\"", "sh", "{k}"]')  # as a file has it
    (tmp_path / "f.smss").unlink()
    assert await warning(tmp_path, ["sh", "-c", 'echo "$1"', "sh", "{k}"], WORD) == ("", "")
    async with Host(tmp_path, None, watch=False) as host:
        assert await host.call("f", {"k": "; id"}, timeout=20) == "; id"


async def test_what_a_program_reads_as_its_script_is_one_too(tmp_path: Path) -> None:
    for command in (["sh"], ["bash", "-s"], ["python3", "-"]):
        message, _ = await warning(tmp_path, command, WORD, COMMAND_STDIN="echo {k}")
        assert message.startswith("what a caller gives for k is run as code by")
    assert await warning(tmp_path, ["sh", "a.sh"], WORD, COMMAND_STDIN="echo {k}") == ("", "")


async def test_values_that_can_say_nothing_else_are_none(tmp_path: Path) -> None:
    command = ["sh", "-c", "head -n {n} {which}", "sh"]
    which = {"name": "which", "type": "string"}
    number = {"name": "n", "type": "integer"}
    assert await warning(tmp_path, command, [number, which | {"enum": ["a", "b"]}]) == ("", "")
    assert "for which is run" in (await warning(tmp_path, command, [number, which]))[0]
    bound = {"FUNCTION_BIND": '{"which": "a"}'}
    assert await warning(tmp_path, command, [number, which], **bound) == ("", "")
    caller = {"FUNCTION_BIND": '{"which": "$caller.subject"}'}
    assert "for which is run" in (await warning(tmp_path, command, [number, which], **caller))[0]
