from __future__ import annotations

import base64
import io
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from enginehost.names import face_name

from .conftest import ADD, BROKEN, ECHO, TRUSTED, Cli, program, write


def test_list_shows_the_functions(cli: Cli) -> None:
    done = cli("list")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["NAME", "add", "count", "echo", "fail"]
    assert done.err == ""


def test_list_as_json_selects_by_tags(cli: Cli) -> None:
    (add,) = cli("list", "--json", "--tags", "math,none").json
    assert add["name"] == "add"
    assert add["tags"] == ["math"]


def test_list_tells_beside_the_output_which_files_do_not_serve(cli: Cli, folder: Path) -> None:
    (folder / "broken.smss").write_text(BROKEN)
    done = cli("list")
    assert done.code == 0
    assert "broken" not in done.out
    assert "unsupported" in done.err
    assert "LocalPythn" in done.err


def test_list_takes_a_folder(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert cli("list", "other").out == cli("list", "--folder", "other").out == "no functions\n"


def test_a_missing_folder_is_an_error_with_a_way_out(cli: Cli) -> None:
    done = cli("list", "nowhere")
    assert done.code == 2
    assert "there is no folder nowhere" in done.err
    assert "enginehost new python hello --folder nowhere" in done.err


def test_describe_is_a_page_with_a_call_that_works(cli: Cli) -> None:
    done = cli("describe", "add")
    assert "Add two numbers." in done.out
    assert "b  number, optional, default 1" in done.out
    proposed = done.out.splitlines()[-1].split("enginehost ")[1].split()
    assert cli(*proposed).out == "2\n"


def test_describe_as_json_has_everything(cli: Cli, folder: Path) -> None:
    about = cli("describe", "add", "--json").json
    assert about["parameters"]["required"] == ["a"]
    assert about["path"] == str(folder / "add.smss")


def test_a_name_that_a_tool_shows_works_as_the_functions_own(cli: Cli, folder: Path) -> None:
    far = ADD.replace("= add", "= größer").replace("tools.py", "far.py")
    write(folder, {"far.smss": far, "far.py": "async def größer(a, b):\n    return a + b\n"})
    for kind in ("openai", "gemini", "mcp"):
        shown = face_name("größer", kind)
        assert shown != "größer"
        assert cli("call", shown, "a=1").json == 2
        assert cli("call", shown, "a=1", "--stream").json == 2
        assert cli("describe", shown, "--json").json["name"] == "größer"
        assert cli("describe", shown, "--as", "mcp").json["name"] == face_name("größer", "mcp")


def test_describe_as_a_kind_is_the_spec(cli: Cli) -> None:
    assert cli("describe", "add", "--as", "bedrock").json["toolSpec"]["name"] == "add"
    unknown = cli("describe", "add", "--as", "telex")
    assert unknown.code == 2
    assert "openai-strict" in unknown.err


def test_tools_are_a_list_of_specs(cli: Cli) -> None:
    tools = cli("tools", "smss", "--as", "openai-responses").json
    assert [tool["name"] for tool in tools] == ["add", "count", "echo", "fail"]
    assert [tool["name"] for tool in cli("tools", "--as", "mcp", "--tags", "math").json] == ["add"]
    assert [tool["function"]["name"] for tool in cli("tools", "--tags", "math").json] == ["add"]


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (["add", "a=1", "b=2"], 3),
        (["add", "a=1.5"], 2.5),
        (["add", "a:=1", "b:=2"], 3),
        (["add", "--json", '{"a": 1, "b": 2}'], 3),
        (["add", "--json", '{"a": 1}', "b=9"], 10),
        (["echo", 'value:=[1, {"x": null}]'], [1, {"x": None}]),
        (["echo", "value:=123456789012345678901234567890"], 123456789012345678901234567890),
        (["echo", "text=7"], "7"),
        (["echo", "text=@@ada"], "@ada"),
        (["echo", "text="], ""),
        (["count", "to=3"], [0, 1, 2]),
    ],
)
def test_call_prints_the_result(cli: Cli, words: list[str], result: Any) -> None:
    done = cli("call", *words)
    assert done.err == ""
    assert done.json == result


def test_call_reads_files(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Grüße\n", encoding="utf-8")
    (tmp_path / "rows.json").write_text("[1, 2]")
    assert cli("call", "echo", "text=@letter.txt").json == "Grüße\n"
    assert cli("call", "echo", "value:=@rows.json").json == [1, 2]
    missing = cli("call", "echo", "text=@none.txt")
    assert missing.code == 2
    assert "none.txt cannot be read" in missing.err


def test_call_reads_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 40}')))
    assert cli("call", "add", "-", "b=2").json == 42


def test_raw_prints_text_without_quotes_and_all_else_as_json(cli: Cli) -> None:
    assert cli("call", "echo", 'text=a "b"', "--raw").out == 'a "b"\n'
    assert cli("call", "add", "a=1", "--raw").out == "2\n"


def test_stream_prints_an_item_a_line(cli: Cli) -> None:
    assert cli("call", "count", "to=3", "--stream").out == "0\n1\n2\n"
    assert cli("call", "add", "a=1", "--stream").out == "2\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["ad", "a=1"], 3, "did you mean add?"),
        (["add", "a=x"], 4, 'is not of type "number"'),
        (["add"], 4, '"a" is a required property'),
        (["add", "a=1", "c=2"], 4, '"c" is not a parameter'),
        (["add", "a=1", "a=2"], 2, "given twice"),
        (["add", "a"], 2, "no argument"),
        (["add", "=1"], 2, "no argument"),
        (["add", "a:=1x"], 2, "a: "),
        (["add", "--json", "[1]"], 2, "one JSON object"),
        (["add", "--json", "{"], 2, "--json: "),
        (["fail"], 1, "it broke"),
        (["add", "a=1", "--timeout", "0"], 2, "timeout"),
    ],
)
def test_a_call_that_fails_says_why_and_has_its_exit_code(
    cli: Cli, words: list[str], code: int, text: str
) -> None:
    done = cli("call", *words)
    assert done.code == code
    assert done.out == ""
    assert text in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("name", ["echo", "inside"])
def test_what_is_no_unicode_and_what_is_no_number_reaches_no_function(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Half a surrogate pair is how bytes from a shell that are no UTF-8 look to Python."""
    for variable, value in TRUSTED.items():
        monkeypatch.setenv(variable, value)
    more = '{"name": "number", "type": "number"}]\n'
    worker = ECHO.rstrip().removesuffix("]") + ", " + more
    inside = worker.replace("FUNCTION_NAME = echo", "FUNCTION_NAME = inside\n    PYTHON_FUNCTION_NAME = echo")
    write(folder, {"echo.smss": worker, "inside.smss": inside + "    PYTHON_ISOLATION = none\n"})
    half = r'"\ud800"'
    cases = (
        (["text=\udcff"], 2, "'text' is not UTF-8 text"),
        (["value=a\udced\udca0\udc80"], 2, "'value' is not UTF-8 text"),
        (["te\udcffxt=a"], 2, "is not UTF-8 text"),
        (["text:=\udcff"], 2, "text: not JSON"),
        ([f"text:={half}"], 2, "text: not JSON"),
        ([f"value:=[{half}]"], 2, "value: not JSON"),
        (["--json", f'{{"text": {half}}}'], 2, "--json: not JSON"),
        (["--json", '{"number": NaN}'], 2, "--json: not JSON"),
        (["number:=NaN"], 2, "number: not JSON"),
        (["number:=1e999"], 2, "number: not JSON"),
        (["value:=[Infinity]"], 2, "value: not JSON"),
        (["number=NaN"], 4, 'is not of type "number"'),
        (["number=1e999"], 4, 'is not of type "number"'),
    )
    for words, code, text in cases:
        done = cli("call", name, *words)
        assert (done.code, done.out) == (code, ""), ascii(words)
        assert text in done.err
    assert cli("call", name, "text=NaN").json == "NaN"


def test_bytes_of_a_shell_that_are_no_text_are_refused(folder: Path) -> None:
    done = program("call", "echo", "text=\udcff", cwd=folder.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'text' is not UTF-8 text" in done.stderr


def test_arguments_as_json_make_errors_json(cli: Cli) -> None:
    done = cli("call", "add", "--json", '{"a": "x"}')
    assert done.code == 4
    assert done.error["code"] == "invalid_arguments"
    assert done.error["detail"]["errors"][0]["pointer"] == "/a"


def test_json_makes_errors_json_everywhere(cli: Cli) -> None:
    for words in (
        ["list", "nowhere"],
        ["describe", "nobody"],
        ["tools", "--as", "telex"],
        ["new", "python", "1"],
    ):
        done = cli(*words, "--json")
        assert done.code in (2, 3)
        assert set(done.error) >= {"code", "message"}


def test_the_settings_beside_the_folder_count(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "enginehost.yaml").write_text("htpp: off\n")
    done = cli("list")
    assert done.code == 78
    assert "enginehost.yaml:1" in done.err
    assert "did you mean http?" in done.err
    assert cli("list", "--json").error["line"] == 1


def test_a_number_longer_than_python_reads_is_printed_or_refused(cli: Cli) -> None:
    digits = "9" * 5000
    done = cli("call", "echo", f"value:={digits}")
    assert done.out == f"{digits}\n" or done.code == 2


def test_ctrl_c_ends_a_call_without_traceback(folder: Path) -> None:
    command = [sys.executable, "-m", "enginehost", "call", "count", "to=1000000000", "--stream"]
    process = subprocess.Popen(
        command, cwd=folder.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == ""


def test_a_reader_that_goes_away_ends_a_stream_quietly(folder: Path) -> None:
    command = [sys.executable, "-m", "enginehost", "call", "count", "to=1000000000", "--stream"]
    process = subprocess.Popen(
        command, cwd=folder.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "0\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(30) == 141


def test_output_is_utf8_whatever_the_locale_says(folder: Path) -> None:
    done = program(
        "call",
        "echo",
        "-",
        cwd=folder.parent,
        stdin=json.dumps({"text": "é"}),
        env={"LC_ALL": "C", "PYTHONUTF8": "0"},
    )
    assert done.stdout == '"é"\n'


def test_a_function_that_cannot_be_called_says_why_and_what_to_do(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "bad", {"broken.smss": BROKEN})
    done = cli("call", "broken", "-f", "bad")
    assert done.code == 69
    assert "no plugin provides the engine class 'LocalPythn'" in done.err
    assert "hint: `enginehost validate --load bad` shows where" in done.err
    assert "`enginehost doctor bad` says how to mend it" in cli("list", "bad").err


def test_a_name_in_other_letters_is_the_nearest(cli: Cli) -> None:
    done = cli("call", "ADD", "a=1")
    assert done.code == 3
    assert "did you mean add?" in done.err


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_output_is_no_error(folder: Path, closed: str) -> None:
    command = f"{sys.executable} -m enginehost list {closed}"
    assert subprocess.run(command, shell=True, cwd=folder.parent, timeout=60).returncode == 0


def test_integers_keep_every_digit(cli: Cli) -> None:
    digits = "7" * 400
    assert cli("call", "echo", f"value:={digits}").out == f"{digits}\n"
    done = cli("call", "echo", f"value:={'7' * 4301}")
    assert done.code == 2
    assert "an integer has 4301 digits, and may have 4300" in done.err


def test_describe_tells_the_whole_type_and_proposes_what_it_takes(cli: Cli, folder: Path) -> None:
    write(
        folder,
        {
            "many.smss": """
                ENGINE_CLASS = LocalPython
                PYTHON_SCRIPT_PATH = many.py
                FUNCTION_NAME = many
                FUNCTION_DESCRIPTION = Give back what came.
                FUNCTION_PARAMETERS = [ \\
                    {"name": "any"}, \\
                    {"name": "days", "type": "array", "items": {"type": "string", "format": "date"}}, \\
                    {"name": "day", "type": "string", "format": "date"}, \\
                    {"name": "where", "type": "object", \\
                     "properties": {"x": {"type": "number"}}, "required": ["x"]}, \\
                    {"name": "count", "type": "integer", "minimum": 5}, \\
                    {"name": "size", "enum": [1, 2]}, \\
                    {"name": "at", "type": "string", "examples": ["@home"]}, \\
                    {"name": "maybe", "anyOf": [{"type": "string"}, {"type": "null"}]} ]
                FUNCTION_REQUIRED_PARAMETERS = ["any", "days", "day", "where", "count", "size", "at", "maybe"]
            """,
            "many.py": "async def many(**given):\n    return given\n",
        },
    )
    page = cli("describe", "many").out
    for told in ("any    anything,", "array of string (date)", "at least 5", "string or null"):
        assert told in page
    proposed = shlex.split(page.splitlines()[-1].split("enginehost ")[1])
    assert cli(*proposed).json == {
        "any": "text",
        "days": ["2026-01-31"],
        "day": "2026-01-31",
        "where": {"x": 1},
        "count": 5,
        "size": 1,
        "at": "@home",
        "maybe": "text",
    }
    assert 'any:="text"' in proposed  # JSON of any kind may stand there


HINTED = """
    from __future__ import annotations
    from dataclasses import dataclass

    @dataclass
    class Person:
        name: str
        friend: Person | None = None

    async def greet(person: Person, data: bytes = b"", count: int | list[int] = 1, **rest: int) -> bytes:
        "Greet."
        return repr([person.name, count, rest]).encode() + data
"""
HINTED_FILE = "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = hinted.py\nPYTHON_FUNCTION_NAME = greet\n"


def test_what_is_behind_a_reference_and_further_names_are_told_and_taken(cli: Cli, folder: Path) -> None:
    write(folder, {"hinted.smss": HINTED_FILE, "hinted.py": HINTED})
    page = cli("describe", "greet").out
    assert "person  object, required" in page
    assert "further names are allowed: integer" in page
    proposed = shlex.split(page.splitlines()[-1].split("enginehost ")[1])
    assert cli(*proposed).code == 0
    told = cli("call", "greet", 'person={"name": "Ada"}', "count=2", "z=3", "data=AAE=").json["$bytes"]
    assert base64.b64decode(told) == b"['Ada', 2, {'z': 3}]\0\1"


@pytest.mark.parametrize("words", [["--json"], ["--as", "mcp"], ["--as", "openai-strict"]])
def test_the_names_in_a_schema_are_as_they_are(cli: Cli, folder: Path, words: list[str]) -> None:
    write(folder, {"hinted.smss": HINTED_FILE, "hinted.py": HINTED})
    assert "$$" not in cli("describe", "greet", *words).out
    about = cli("describe", "greet", "--json").json
    assert about["parameters"]["properties"]["data"]["contentEncoding"] == "base64"
    assert list(about["result"]["properties"]) == about["result"]["required"] == ["$bytes"]


PRINTS = """
    import sys

    def prints(fails=False):
        print("at work", flush=True)
        print("with\\033[31m colour", file=sys.stderr)
        if fails:
            raise ValueError("it broke")
        return 1

    async def prints_here():
        print("at work")
        yield 1
"""


@pytest.fixture
def _prints(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOST_IN_PROCESS_PYTHON", "true")
    for name, isolation in (("prints", "process"), ("prints_here", "none")):
        file = f"""
            ENGINE_CLASS = LocalPython
            PYTHON_SCRIPT_PATH = prints.py
            PYTHON_ISOLATION = {isolation}
            FUNCTION_NAME = {name}
            FUNCTION_DESCRIPTION = Prints.
            FUNCTION_PARAMETERS = [{{"name": "fails", "type": "boolean"}}]
        """
        write(folder, {f"{name}.smss": file, "prints.py": PRINTS})


@pytest.mark.usefixtures("_prints")
def test_what_a_function_prints_is_shown_beside_its_result(cli: Cli) -> None:
    done = cli("call", "prints")
    assert (done.out, done.err) == ("1\n", "at work\nwith\\x1b[31m colour\n")
    for words in (["prints_here"], ["prints_here", "--stream"]):
        done = cli("call", *words)
        assert (done.json, done.err) == (1 if len(words) > 1 else [1], "at work\n")


@pytest.mark.usefixtures("_prints")
def test_a_function_that_raises_is_told_with_its_line(cli: Cli) -> None:
    done = cli("call", "prints", "fails=true")
    assert done.code == 1
    assert "prints failed: ValueError: it broke" in done.err
    assert 'hint: smss/prints.py:7: raise ValueError("it broke") (`enginehost --debug' in done.err
    hint = cli("call", "prints", "fails=true", "--json").error["detail"]["hint"]
    assert hint.startswith("smss/prints.py:7: ")


def test_a_file_without_an_end_is_refused_as_too_large(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOST_HTTP__MAX_BODY_BYTES", "2000")
    for words in (["call"], ["call", "--json"]):
        done = cli(*words, "echo", "text=@/dev/zero")
        assert (done.code, done.out) == (5, "")
        assert "/dev/zero may have 2000 bytes and has more" in done.err
        assert "http.max_body_bytes" in done.err


@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_no_text_of_a_function_makes_lines_that_look_like_ours(
    cli: Cli, folder: Path, debug: list[str]
) -> None:
    script = r"""
        def forge(a, b):
            raise ValueError("it broke\n::error::forged\nerror: forged\x1b[31m\r")
    """
    write(
        folder,
        {"forge.py": script, "forge.smss": ADD.replace("tools", "forge").replace("= add", "= forge")},
    )
    done = cli(*debug, "call", "forge", "a=1")
    assert "forged" in done.err
    assert all(line.isprintable() for line in done.err.split("\n"))
    assert not any(line.lstrip().startswith(("::error", "error: forged")) for line in done.err.splitlines())
