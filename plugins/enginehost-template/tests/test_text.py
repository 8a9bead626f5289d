"""The ``Text`` engine: the conformance suite, and what is special to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from enginehost_template.text import TextEngine

from enginehost.errors import ConfigError
from enginehost.testing import EngineContract, engine_registry, make_engine, running_host

GREETING = """
ENGINE_CLASS = Text
FUNCTION_NAME = greeting
FUNCTION_DESCRIPTION = Greets somebody
FUNCTION_PARAMETERS = [{"name": "name", "type": "string"}, {"name": "times", "type": "integer"}]
FUNCTION_REQUIRED_PARAMETERS = ["name"]
"""


class TestTextEngine(EngineContract):
    """A template in the file itself."""

    engine_class = TextEngine
    smss = GREETING + "TEXT_TEMPLATE = Good morning, $name! $times"
    examples = (
        ({"name": "Ada", "times": 2}, "Good morning, Ada! 2"),
        ({"name": "$name ${x} $$"}, "Good morning, $name ${x} $$! "),
        ({"name": ""}, "Good morning, ! "),
    )


class TestTextFile(EngineContract):
    """A template in a file beside it."""

    engine_class = TextEngine
    smss = GREETING + "TEXT_FILE = greeting.txt\nTEXT_MISSING = once"
    examples = (({"name": "Ada"}, "Dear Ada,\n$5, once"),)

    def prepare(self, folder: Path) -> None:
        """The text."""
        (folder / "greeting.txt").write_text("Dear $name,\n$$5, $times")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("TEXT_TEMPLATE = $nobody", "names nobody, which FUNCTION_PARAMETERS does not declare"),
        ("TEXT_TEMPLATE = 5 $", "begins no name"),
        ("TEXT_FILE = missing.txt", "cannot be read: No such file"),
        ("TEXT_TEMPLATE =", "there is no text"),
    ],
)
def test_a_wrong_text_is_found_when_the_file_is_loaded(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_engine(TextEngine, f"{GREETING}{line}\n", tmp_path)


def test_the_text_file_is_watched(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("$name")
    engine = make_engine(TextEngine, f"{GREETING}TEXT_FILE = a.txt", tmp_path)
    assert engine.watched() == (tmp_path / "a.txt",)


@pytest.mark.anyio
async def test_the_example_works(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "examples" / "invitation.smss").read_text()
    folder = tmp_path / "smss"
    folder.mkdir()
    (folder / "invitation.smss").write_text(text)
    async with running_host(folder, registry=engine_registry(TextEngine, text)) as host:
        assert host.problems() == []
        answer = await host.call("invitation", {"guest": "Ada", "day": "2026-12-01"})
    assert answer == "Dear Ada, please come on 2026-12-01. There are 1 seats for you."
