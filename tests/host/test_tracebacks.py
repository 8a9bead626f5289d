"""Tracebacks show an author's own code, and say in which line of it something went wrong."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.tracebacks import Place, RemoteTraceback, author_traceback, cause_traceback, place_of

HOST = """
def through(function):
    return function()

def raises():
    raise TypeError("a bug of ours")
"""


def of_host(name: str) -> Any:
    """A function whose frames are the host's."""
    found: dict[str, Any] = {"__name__": "enginehost.some.module"}
    exec(compile(HOST, "enginehost/some/module.py", "exec"), found)
    return found[name]


def written(folder: Path, name: str, text: str) -> dict[str, Any]:
    """What an author's file defines."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    found: dict[str, Any] = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), found)
    return found


def caught(function: Any) -> BaseException:
    try:
        function()
    except BaseException as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("it did not raise")


def test_frames_of_the_host_are_left_out_and_those_of_libraries_behind_the_authors_stay(
    tmp_path: Path,
) -> None:
    own = written(tmp_path, "own.py", "import json\ndef go():\n    return through(lambda: json.loads('{'))\n")
    own["through"] = of_host("through")
    text = author_traceback(caught(lambda: of_host("through")(own["go"])))
    assert "module.py" not in text
    assert [line for line in text.splitlines() if "own.py" in line] == [
        f'  File "{tmp_path}/own.py", line 3, in go',
        f'  File "{tmp_path}/own.py", line 3, in <lambda>',
    ]
    assert "json/decoder.py" in text
    assert text.endswith("Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n")


def test_what_no_author_wrote_has_no_author_and_is_whole_where_the_cause_is_asked_for() -> None:
    error = _raised_in_host()
    assert author_traceback(error) == ""
    assert "some/module.py" in cause_traceback(error)


def _raised_in_host() -> BaseException:
    error = caught(of_host("raises"))
    here = error.__traceback__
    return error.with_traceback(here.tb_next if here else None)


def test_causes_contexts_and_groups_are_shown_in_the_same_way(tmp_path: Path) -> None:
    text = """
def cause():
    try:
        through(lambda: 1 / 0)
    except ZeroDivisionError as error:
        raise ValueError("why") from error

def context():
    try:
        through(lambda: 1 / 0)
    except ZeroDivisionError:
        raise ValueError("why")

def group():
    try:
        through(lambda: 1 / 0)
    except ZeroDivisionError as error:
        raise ExceptionGroup("both", [error])
"""
    own = written(tmp_path, "own.py", text)
    own["through"] = of_host("through")
    for name in ("cause", "context", "group"):
        told = author_traceback(caught(own[name]))
        assert "ZeroDivisionError: division by zero" in told
        assert f"in {name}" in told
        assert "module.py" not in told


def test_a_traceback_of_another_process_stands_for_all_that_is_known() -> None:
    error = ValueError("far away")
    error.__cause__ = RemoteTraceback("Traceback of there\n")
    outer = RuntimeError("here")
    outer.__cause__ = error
    assert author_traceback(outer) == cause_traceback(outer) == "Traceback of there\n"


def test_an_endless_and_a_very_long_chain_end() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert author_traceback(first) == ""
    error: BaseException = ValueError("0")
    for number in range(400):
        error, cause = ValueError(number), error
        error.__cause__ = cause
    assert author_traceback(error) == ""


def test_the_place_is_the_last_own_line_below_the_first_folder_that_holds_it(tmp_path: Path) -> None:
    root, scripts = str(tmp_path), str(tmp_path / "scripts")
    helper = written(
        tmp_path / "scripts" / "pkg", "helper.py", "import json\ndef go():\n    json.loads('{')\n"
    )
    own = written(tmp_path / "scripts", "own.py", "def go():\n    return 1\n\ndef run(f):\n    f()\n")
    error = caught(lambda: own["run"](helper["go"]))
    assert isinstance(error, json.JSONDecodeError)
    assert place_of(error, [scripts, root]) == Place("pkg/helper.py", 3)
    assert str(place_of(error, [root])) == "scripts/pkg/helper.py:3"
    assert place_of(error) == Place("helper.py", 3)


def test_the_place_of_a_syntax_error_is_the_line_that_has_it(tmp_path: Path) -> None:
    error = caught(lambda: compile("x = 1\ndef f(:\n", str(tmp_path / "bad.py"), "exec"))
    assert str(place_of(error, [str(tmp_path)])) == "bad.py:2"


def test_what_no_author_wrote_has_no_place() -> None:
    assert place_of(_raised_in_host()) is None
    assert place_of(ValueError("never raised")) is None


@given(theirs=st.lists(st.booleans(), max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_own_frames_are_those_of_the_whole_traceback_without_the_hosts(theirs: list[bool]) -> None:
    def own(function: Any) -> Any:
        return function()

    through = of_host("through")

    def fails() -> None:
        raise ValueError("no")

    function: Any = fails
    for is_theirs in theirs:
        function = (lambda step, inner: lambda: step(inner))(own if is_theirs else through, function)
    error = caught(function)
    whole = traceback.format_exception(error)
    told = author_traceback(error)
    assert told.count("in own") == "".join(whole).count("in own") == sum(theirs)
    assert "in through" not in told
