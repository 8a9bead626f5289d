"""A file that names a function, or ``*``, serves it with all that its script says of it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host, HostSettings
from enginehost.engine import Function
from enginehost.errors import InvalidArguments

from .conftest import eventually


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(textwrap.dedent(text))


SHAPES = """
    from dataclasses import dataclass
    from datetime import date

    @dataclass
    class Point:
        x: float
        y: float

    def area(a: Point, b: Point, day: date | None = None) -> float:
        '''The area between two corners.

        Args:
            a: One corner.
            b: The other.
        '''
        assert day is None or day.year == 2026
        return abs(a.x - b.x) * abs(a.y - b.y)

    def corner(x: float) -> Point:
        return Point(x, x)

    async def later(n: int = 1):
        "Wait."
        for i in range(n):
            yield i

    def _private(): ...

    from os.path import join
"""


async def test_a_file_that_names_a_function_alone_has_a_whole_signature(tmp_path: Path) -> None:
    write(tmp_path, "shapes.py", SHAPES)
    write(
        tmp_path,
        "area.smss",
        "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=shapes.py\nPYTHON_FUNCTION_NAME=area",
    )
    async with Host(tmp_path, None, watch=False) as host:
        assert host.problems() == []
        (entry,) = host.functions()
        assert entry.signature.name == "area"
        assert entry.signature.description == "The area between two corners."
        assert entry.signature.properties["a"]["description"] == "One corner."
        assert entry.signature.required == ("a", "b")
        assert entry.signature.result == {"type": "number"}
        corners = {"a": {"x": 0, "y": 0}, "b": {"x": 2, "y": 3}}
        assert await host.call("area", {**corners, "day": "2026-01-01"}) == 6
        with pytest.raises(InvalidArguments, match="/b"):
            await host.call("area", {**corners, "b": 1})


async def test_what_the_file_says_counts(tmp_path: Path) -> None:
    write(tmp_path, "shapes.py", SHAPES)
    text = """
        ENGINE_CLASS=LocalPython
        PYTHON_SCRIPT_PATH=shapes.py
        FUNCTION_NAME=%s
        %s
    """
    write(tmp_path, "a.smss", text % ("later", "FUNCTION_PARAMETERS=[]\nFUNCTION_DESCRIPTION=Mine"))
    write(tmp_path, "b.smss", text % ("corner", 'FUNCTION_REQUIRED_PARAMETERS=["x", "y"]'))
    async with Host(tmp_path, None, watch=False) as host:
        a, b = (entry.signature for entry in sorted(host.functions(), key=lambda one: one.record.path))
        assert (a.description, dict(a.properties), a.streaming) == ("Mine", {}, True)
        assert b.required == ("x", "y")
        told = {(found.line, found.code): found.message for found in host.problems()}
        assert told == {
            (0, "no-description"): "FUNCTION_DESCRIPTION is missing",
            (5, "signature-mismatch"): "corner() takes no parameter 'y'",
        }


def by_name(functions: Any) -> Mapping[str, Function]:
    return {one.signature.name: one for one in functions}


async def test_a_star_serves_every_public_function_and_follows_the_script(tmp_path: Path) -> None:
    write(tmp_path, "shapes.py", SHAPES)
    text = """
        ENGINE_CLASS=LocalPython
        PYTHON_SCRIPT_PATH=shapes.py
        PYTHON_FUNCTION_NAME=*
        FUNCTION_NAME=geo_*
        FUNCTION_TAGS=shapes
        FUNCTION_BIND={"n": 2}
        FUNCTION_RESULT={}
    """
    write(tmp_path, "all.smss", text)
    async with Host(tmp_path, None) as host:
        found = by_name(host.functions())
        assert sorted(found) == ["geo_area", "geo_corner", "geo_later"]
        assert all(one.signature.tags == ("shapes",) for one in found.values())
        assert await host.call("geo_corner", {"x": 1}) == {"x": 1, "y": 1}
        assert await host.call("geo_later", {}) == [0, 1]  # n is bound
        assert dict(found["geo_later"].signature.properties) == {}
        told = [(found.line, found.code) for found in host.problems()]
        assert sorted(told) == [(4, "no-description"), (8, "no-effect")]
        write(tmp_path, "shapes.py", SHAPES + "\n    def more(): return 'there'")
        await eventually(lambda: "geo_more" in by_name(host.functions()))
        assert await host.call("geo_more", {}) == "there"


CALLED = """
    from datetime import date, datetime
    __all__ = ["place", "few", "lists", "told", "lost"]

    def place(a: int = 1, b: int = 2, /, *, on: date) -> list:
        "By position."
        return [a, b, type(on).__name__]

    def few(*args: int):
        "Any number."
        return len(args)

    def lists(row: list[float], rows: list[list[float]], either: "list[int] | tuple[int, ...]"):
        "Lists."
        return [type(row).__name__, type(rows[0]).__name__, type(either).__name__]

    def told(when, then):
        '''Documented types.

        :type when: datetime.date
        :param datetime then: a time
        '''
        return [type(when).__name__, type(then).__name__]
"""


@pytest.mark.parametrize("isolation", ["process", "none"])
async def test_functions_are_called_as_they_are_written(tmp_path: Path, isolation: str) -> None:
    numpy = pytest.importorskip("numpy")
    write(tmp_path, "called.py", CALLED)
    text = f"""
        ENGINE_CLASS=LocalPython
        PYTHON_SCRIPT_PATH=called.py
        PYTHON_FUNCTION_NAME=*
        PYTHON_ISOLATION={isolation}
    """
    write(tmp_path, "called.smss", text)
    settings = HostSettings(in_process_python=True)
    async with Host(tmp_path, None, settings=settings, watch=False) as host:
        assert await host.call("place", {"b": 7, "on": "2026-01-31"}) == [1, 7, "date"]
        assert await host.call("few", {}) == 0
        given = {"row": numpy.ones(2), "rows": numpy.ones((2, 2)), "either": (1, 2)}
        assert await host.call("lists", given) == ["list", "list", "tuple"]
        when = {"when": "2026-01-31", "then": "2026-01-31T12:00:00"}
        assert await host.call("told", when) == ["date", "datetime"]
        told = sorted(found.message for found in host.problems())
    assert told == [
        "called.py: __all__ names lost, which the script does not define",
        "few() takes *args, which callers cannot give: arguments have names",
    ]


MODELS = """
    import enum
    from dataclasses import dataclass

    class Size(enum.Enum):
        SMALL = 1
        LARGE = 2

    @dataclass
    class Box:
        size: Size
        label: str = ""

    def weigh(box: Box) -> int:
        "Weigh a box."
        return box.size.value
"""


async def test_classes_and_functions_of_modules_beside_the_script_are_read_and_followed(
    tmp_path: Path,
) -> None:
    write(tmp_path, "models.py", MODELS)
    script = """
        import models
        from models import Box, weigh

        def double(box: Box, size: models.Size = models.Size.SMALL) -> int:
            "Twice its size."
            return box.size.value * 2 + size.value
    """
    write(tmp_path, "boxes.py", script)
    head = "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=boxes.py\nPYTHON_FUNCTION_NAME="
    write(tmp_path, "double.smss", f"{head}double")
    write(tmp_path, "weigh.smss", f"{head}weigh")
    async with Host(tmp_path, None) as host:
        assert host.problems() == []
        found = by_name(host.functions())
        size = {"type": "integer", "enum": [1, 2]}
        box = {"size": size, "label": {"type": "string"}}
        assert found["double"].signature.properties["box"]["properties"] == box
        assert found["double"].signature.properties["size"] == {**size, "default": 1}
        assert found["weigh"].signature.description == "Weigh a box."
        assert await host.call("double", {"box": {"size": 2}}) == 5
        assert await host.call("weigh", {"box": {"size": 2}}) == 2
        write(tmp_path, "models.py", MODELS.replace("label", "title"))

        def has_title() -> bool:
            return "title" in by_name(host.functions())["double"].signature.properties["box"]["properties"]

        await eventually(has_title)


async def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    write(tmp_path, "made.py", "f = eval('lambda: 1')")
    text = "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=made.py\nFUNCTION_NAME=f\nFUNCTION_DESCRIPTION=Made."
    write(tmp_path, "made.smss", text)
    async with Host(tmp_path, None, watch=False) as host:
        assert [found.code for found in host.problems()] == ["unknown-parameters"]
        assert await host.call("f", {}) == 1


async def test_a_star_inside_the_host(tmp_path: Path) -> None:
    write(tmp_path, "shapes.py", SHAPES)
    text = "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=shapes.py\nPYTHON_FUNCTION_NAME=*"
    write(tmp_path, "all.smss", f"{text}\nPYTHON_ISOLATION=none")
    async with Host(tmp_path, None, watch=False) as refused:
        assert [found.code for found in refused.problems() if found.severity == "error"] == ["not-allowed"]
    async with Host(tmp_path, None, settings=HostSettings(in_process_python=True), watch=False) as host:
        corners = {"a": {"x": 0, "y": 0}, "b": {"x": 2, "y": 3}}
        assert await host.call("area", {**corners, "day": "2026-01-01"}) == 6
        assert await host.call("later", {"n": 2}) == [0, 1]


@pytest.mark.parametrize(
    ("line", "script", "message"),
    [
        ("FUNCTION_NAME=one", "def f(): ...", "FUNCTION_NAME = one is one name"),
        ("", "def _f(): ...", "s.py defines no public function"),
        ("", "__all__ = ['g']\ndef f(): ...\nfrom m import g", "s.py defines no public function"),
    ],
)
async def test_a_star_that_serves_nothing_is_an_error(
    tmp_path: Path, line: str, script: str, message: str
) -> None:
    write(tmp_path, "s.py", script)
    head = "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=s.py\nPYTHON_FUNCTION_NAME=*\n"
    write(tmp_path, "s.smss", head + line)
    async with Host(tmp_path, None, watch=False) as host:
        (found,) = host.problems()
        assert message in found.message
        assert found.line
