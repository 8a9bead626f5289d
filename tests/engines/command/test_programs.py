"""A program as a function: what it reads, what it prints, where it runs, and what its file may say."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.cli.scaffold import new_files
from enginehost.engine import Call
from enginehost.errors import EngineUnavailable, ExecutionFailed, InvalidArguments, TooLarge
from enginehost.plugins import PluginRegistry
from enginehost_engines.command.outputs import Lines

from .conftest import Served, engine_of, python

LINE = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))
SHOW_WORDS = "import sys, json; print(json.dumps(sys.argv[1:]))"
BIG = 123456789012345678901234567890
ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"


async def test_arguments_reach_the_program_as_words(served: Served) -> None:
    command = python(SHOW_WORDS, ["--n", "{n}"], {"loud": "--loud"}, "--", "{names}")
    parameters = ["n", "loud", "names"]
    arguments = {"n": 3, "loud": True, "names": ["$HOME", "a b", "; rm -rf *", "-x", "é\n"]}
    result = await served.run(command, parameters, COMMAND_OUTPUT="json", arguments=arguments)
    assert result == ["--n", "3", "--loud", "--", *arguments["names"]]
    assert await served.call("f") == ["--"]


async def test_a_program_of_another_language_works(served: Served) -> None:
    command = ["awk", "-v", "n={n}", "BEGIN { for (i = 1; i <= n; i++) { s += i }; print s }"]
    assert await served.run(command, ["n"], arguments={"n": 10}) == "55"


async def test_the_text_is_what_it_prints_without_the_last_line_break(served: Served) -> None:
    assert await served.run(["printf", "%s", "{x}"], ["x"], arguments={"x": "a\n\n"}) == "a\n"


@pytest.mark.parametrize(
    ("output", "text", "expected"),
    [
        ("text", "", ""),
        ("TEXT", "a\r\n", "a"),
        ("json", ' {"a": [1, 2.5, 123456789012345678901234567890]}\n', {"a": [1, 2.5, BIG]}),
        ("bytes", "\x00é", "\x00é".encode()),
        ("json", '{"$bytes": "AAE="}', b"\x00\x01"),
    ],
)  # fmt: skip
async def test_output_has_the_shape_that_the_file_asks_for(
    served: Served, output: str, text: str, expected: Any
) -> None:
    arguments = {"x": text}
    keys = {"COMMAND_STDIN": "{x}", "COMMAND_OUTPUT": output}
    assert await served.run(python(ECHO), ["x"], arguments=arguments, **keys) == expected


async def test_lines_come_as_a_stream(served: Served) -> None:
    served.smss("f", ["printf", "a\\nb\\r\\n\\nc"], COMMAND_OUTPUT="lines")
    await served.host.start()
    assert served.host.entry("f").signature.streaming
    assert [line async for line in served.host.stream("f", {})] == ["a", "b", "", "c"]
    assert await served.call("f") == ["a", "b", "", "c"]


@settings(max_examples=80, deadline=None)
@given(lines=st.lists(LINE), cuts=st.lists(st.integers(1, 5)))
def test_lines_are_cut_right_however_they_come(lines: list[str], cuts: list[int]) -> None:
    data, cutter, found = "".join(f"{line}\n" for line in lines).encode(), Lines("p", 10_000), list[str]()
    while data:
        size = cuts.pop() if cuts else len(data)
        found += cutter.feed(data[:size])
        data = data[size:]
    assert [*found, *cutter.end()] == lines


# What it reads


async def test_it_reads_the_arguments_as_json(served: Served) -> None:
    arguments = {"text": "é\0\n", "data": b"\x00", "big": 2**70, "nested": {"a": [None]}}
    keys = {"COMMAND_STDIN": "json", "COMMAND_OUTPUT": "json"}
    assert await served.run(python(ECHO), list(arguments), arguments=arguments, **keys) == arguments


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
async def test_what_it_reads_is_what_the_caller_gave(text: str, tmp_path: Path) -> None:
    keys = {"command_stdin": "{x}", "command_output": "bytes"}
    engine = engine_of(tmp_path, ["x"], command=["cat"], **keys)
    await engine.open()
    (function,) = engine.functions()
    assert await function.run({"x": text}, Call("f")) == text.encode()
    await engine.close()


@pytest.mark.parametrize(
    ("template", "arguments", "expected"),
    [
        ("none", {"a": 1}, b""),
        ("x={a} y={b}\n", {"a": 1}, b"x=1 y=\n"),
        ("{a}", {"a": b"\x00\xff"}, b"\x00\xff"),
        ("{a}", {"a": [1, "b"]}, b'[1,"b"]'),
        ("{{a}}", {"a": 1}, b"{a}"),
    ],
)
async def test_it_reads_a_text_with_arguments_in_it(
    served: Served, template: str, arguments: dict[str, Any], expected: bytes
) -> None:
    keys = {"COMMAND_STDIN": template, "COMMAND_OUTPUT": "bytes"}
    assert await served.run(python(ECHO), ["a", "b"], arguments=arguments, **keys) == expected


async def test_much_goes_in_and_out_at_the_same_time(served: Served) -> None:
    text = "0123456789abcdef" * 200_000
    keys = {"COMMAND_STDIN": "{x}"}
    assert await served.run(["cat"], ["x"], arguments={"x": text}, **keys) == text


# Where it runs


async def test_it_runs_beside_its_file_or_in_the_folder_that_the_file_names(served: Served) -> None:
    (served.folder / "data").mkdir()
    served.smss("there", ["pwd"], COMMAND_FOLDER="data")
    assert await served.run(["pwd"]) == os.path.realpath(served.folder)
    assert await served.call("there") == os.path.realpath(served.folder / "data")


async def test_its_variables_are_those_of_the_host_and_of_the_file(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KEPT", "TAKEN", "ENGINEHOST_X", "OVER"):
        monkeypatch.setenv(name, "1")
    env = json.dumps({"OVER": "2", "NEW": "{x} ü", "TAKEN": None})
    command = python("import os, json; print(json.dumps(dict(os.environ)))")
    found = await served.run(command, COMMAND_OUTPUT="json", COMMAND_ENV=env)
    wanted = {"KEPT": "1", "OVER": "2", "NEW": "{x} ü", "TAKEN": None, "ENGINEHOST_X": None}
    assert {name: found.get(name) for name in wanted} == wanted


async def test_a_program_beside_the_file_is_named_with_a_slash(served: Served) -> None:
    script = served.folder / "tool.sh"
    script.write_text("#!/bin/sh\necho $1\n")
    script.chmod(0o755)
    assert await served.run(["./tool.sh", "{x}"], ["x"], arguments={"x": "one"}) == "one"
    script.write_text("#!/bin/sh\necho changed $1\n")
    assert await served.call("f", x="two") == "changed two"


async def test_bound_arguments_reach_it(served: Served) -> None:
    keys = {"FUNCTION_BIND": '{"who": "$caller.subject"}'}
    assert await served.run(["echo", "{who}"], ["who"], **keys) == "local"


# How it ends


async def test_an_exit_code_is_a_failure_with_the_end_of_what_it_complained_of(served: Served) -> None:
    command = python("import sys; sys.stderr.write('x' * 100_000 + '\\n  no such\\torder\\n'); sys.exit(3)")
    with pytest.raises(ExecutionFailed) as caught:
        await served.run(command)
    assert caught.value.message.endswith("x no such order")
    assert len(caught.value.message) < 700
    assert caught.value.message.startswith("f: ")
    assert caught.value.detail == {"type": "CommandFailed", "exit": "exit status 3", "status": 3}


async def test_codes_that_the_file_names_are_none(served: Served) -> None:
    command = ["grep", "-c", "--", "{x}"]
    keys = {"COMMAND_STDIN": "abc", "COMMAND_SUCCESS_CODES": "[0, 1]"}
    assert await served.run(command, ["x"], arguments={"x": "z"}, **keys) == "0"


async def test_a_secret_of_its_variables_stands_in_no_error(served: Served) -> None:
    command = ["sh", "-c", "echo wrong $MY_TOKEN >&2; exit 1"]
    with pytest.raises(ExecutionFailed) as caught:
        await served.run(command, COMMAND_ENV='{"MY_TOKEN": "hush-hush-hush"}')
    assert "hush" not in str(caught.value)
    assert "wrong ***" in caught.value.message


async def test_what_it_complains_of_is_in_the_log(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "enginehost.engine.f")
    assert await served.run(["sh", "-c", "echo one >&2; printf two >&2; echo three"]) == "three"
    own = [record for record in caplog.records if record.name == "enginehost.engine.f"]
    assert [record.getMessage() for record in own] == ["one", "two"]


@pytest.mark.parametrize(
    ("output", "command", "message"),
    [
        ("text", ["printf", "ab\\377"], r"no UTF-8 \(byte 2\)"),
        ("lines", ["printf", "ab\\n\\377"], "no UTF-8"),
        ("json", ["echo", "{'a'"], "no JSON"),
        ("json", ["true"], "printed nothing"),
    ],
)
async def test_output_that_is_not_as_promised_is_a_failure(
    served: Served, output: str, command: list[str], message: str
) -> None:
    with pytest.raises(ExecutionFailed, match=message) as caught:
        await served.run(command, COMMAND_OUTPUT=output)
    assert caught.value.detail["type"] == "CommandOutput"


@pytest.mark.parametrize("output", ["text", "lines"])
async def test_output_over_the_limit_is_too_large(served: Served, output: str) -> None:
    command = ["yes"] if output == "text" else ["head", "-c", "2000", "/dev/zero"]
    with pytest.raises(TooLarge, match="1000 bytes"):
        await served.run(command, COMMAND_OUTPUT=output, COMMAND_MAX_OUTPUT_BYTES="1000")


# What its file says


def finding(served: Served) -> str:
    return "\n".join(str(one) for one in served.host.problems())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"COMMAND": '["echo", "{nmae}"]'},
            "mean name? (the text {nmae} itself is written {{nmae}})",
        ),
        ({"COMMAND": '["{name}"]'}, "a parameter may not choose the program"),
        ({"COMMAND": '["echo", 5]'}, "element 2 is no text"),
        ({"COMMAND": "echo {name}"}, "COMMAND"),
        ({"COMMAND": ""}, "COMMAND is blank"),
        ({"COMMAND_STDIN": "{other}"}, "COMMAND_STDIN: there is no parameter other"),
        ({"COMMAND_DASHED": '["other"]'}, "COMMAND_DASHED: there is no parameter other"),
        ({"COMMAND_OUTPUT": "xml"}, "COMMAND_OUTPUT"),
        ({"COMMAND_FOLDER": "nowhere"}, "there is no folder nowhere"),
        ({"COMMAND_ENV": '{"A": 5}'}, "the value of A is no text"),
        ({"COMMAND_ENV": '{"A=B": "5"}'}, "is no name of a variable"),
        ({"COMMAND_SUCCESS_CODES": "[256]"}, "from 0 to 255"),
        ({"COMMAND_SUCCESS_CODES": "[]"}, "from 0 to 255"),
        ({"COMMAND_MAX_OUTPUT_BYTES": "0"}, "COMMAND_MAX_OUTPUT_BYTES"),
    ],
)
async def test_what_is_wrong_in_the_file_is_told_at_its_key(
    served: Served, keys: dict[str, str], message: str
) -> None:
    served.smss("f", ["echo", "{name}"], ["name"], **keys)
    await served.host.start()
    assert message in finding(served)
    assert "f.smss:" in finding(served)


async def test_a_parameter_that_the_program_does_not_get_is_a_warning(served: Served) -> None:
    served.smss("f", ["echo", "{a}"], ["a", "b"])
    served.smss("fine", ["echo"], ["a", "b"], COMMAND_STDIN="json")
    await served.host.start()
    (found,) = served.host.problems()
    assert found.code == "unused-parameter"
    assert "the program does not get b" in found.message


async def test_a_new_file_of_this_kind_runs_as_it_is_written(served: Served) -> None:
    for name, text in new_files("Command", "greet", served.folder, PluginRegistry).texts.items():
        (served.folder / name).write_text(text)
    await served.host.start()
    assert served.host.problems() == []
    assert await served.call("greet") == "hello"


async def test_a_program_that_is_not_there_fails_the_engine_with_what_to_do(served: Served) -> None:
    served.smss("f", ["no-such-program-anywhere"])
    served.smss("g", ["./g.sh"])
    (served.folder / "g.sh").write_text("#!/bin/sh\necho here\n")
    await served.host.start()
    with pytest.raises(EngineUnavailable, match="no-such-program-anywhere cannot be started: there is no"):
        await served.call("f")
    assert "install it, or correct COMMAND" in finding(served)
    with pytest.raises(EngineUnavailable, match="it may not be executed"):
        await served.call("g")
    assert "chmod +x makes it executable" in finding(served)


async def test_arguments_that_are_too_long_together_are_refused(served: Served) -> None:
    arguments = {"x": ["x" * 130_000] * 40}
    with pytest.raises(InvalidArguments, match="too long for a command line") as refused:
        await served.run(["echo", "{x}"], ["x"], arguments=arguments)
    assert [one["pointer"] for one in refused.value.detail["errors"]] == [""]
    assert await served.call("f", x="short") == "short"


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="Rscript is not installed")
async def test_the_example_in_r_runs_as_the_page_has_it(served: Served) -> None:
    page = (Path(__file__).parents[3] / "docs" / "command.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w+\n# smss/(\S*quantile\.\w+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (served.folder / "scripts").mkdir()
    for name, text in blocks:
        (served.folder / name).write_text(text)
    await served.host.start()
    assert await served.call("quantile", prob=0.5, values=[1, 2, -3]) == 1


def test_the_page_has_the_example_in_r() -> None:
    page = (Path(__file__).parents[3] / "docs" / "command.md").read_text(encoding="utf-8")
    names = re.findall(r"^```\w+\n# smss/(\S*quantile\.\w+)$", page, re.MULTILINE)
    assert names == ["scripts/quantile.R", "quantile.smss"]
