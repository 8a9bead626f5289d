"""Code that cannot be loaded says where it went wrong: in the line of its author, without folders."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from enginehost.engine import Call, EngineContext, FunctionSignature, HostAccess
from enginehost.errors import EngineHostError, EngineUnavailable
from enginehost.tracebacks import author_traceback
from enginehost_engines.class_engine import ClassEngine
from enginehost_engines.reactor import ReactorConfig, ReactorEngine

from .conftest import Engines, function_of

LOADED = "the code could not be loaded: "


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(dedent(text))


async def opened_and_called(engine: Any) -> None:
    await engine.open()
    await function_of(engine).run({}, Call("f"))


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is imported into this process is another test's at the next one."""
    monkeypatch.delitem(sys.modules, "pkg", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "def f(): pass\nimport nosuchmodule\n",
            "own.py:2: ModuleNotFoundError: No module named 'nosuchmodule'",
        ),
        ("def f(): pass\nraise ValueError('no')\n", "own.py:2: ValueError: no"),
        ("async def f(): pass\nraise SystemExit(3)\n", "own.py:2: SystemExit: 3"),
        (
            "def f(): pass\nimport json\njson.loads('{')\n",
            "own.py:3: JSONDecodeError: Expecting property name",
        ),
        ("from pkg import broken\ndef f(): pass\n", "pkg/broken.py:2: SyntaxError: invalid syntax"),
        ("from pkg import raises\ndef f(): pass\n", "pkg/raises.py:3: KeyError: 'x'"),
    ],
)
@pytest.mark.parametrize("isolation", ["process", "none"])
async def test_a_script_says_its_own_line(engines: Engines, script: str, said: str, isolation: str) -> None:
    write(
        engines.folder,
        {
            "own.py": script,
            "pkg/broken.py": "x = 1\ndef f(:\n",
            "pkg/raises.py": "def go():\n    {}['y']\nraise KeyError('x')\n",
        },
    )
    access = HostAccess(in_process_python=True)
    engine = engines.make("f", access=access, python_script_path="own.py", python_isolation=isolation)
    with pytest.raises(EngineUnavailable) as caught:
        await opened_and_called(engine)
    assert f"{LOADED}{said}" in caught.value.message
    assert str(engines.folder) not in caught.value.message
    assert caught.value.message.count("broken.py") <= 1
    told = author_traceback(caught.value)
    assert f'File "{engines.folder}/own.py"' in told
    assert "worker" not in told
    assert "local_python" not in told


async def test_init_says_that_it_is_init(engines: Engines) -> None:
    engine = engines.make("f", script="def f(): pass", init_function_engine="a = 1; b = zz")
    with pytest.raises(
        EngineUnavailable, match="INIT_FUNCTION_ENGINE:1: NameError: name 'zz' is not defined"
    ):
        await engines.call(engine)


async def test_the_engine_hears_the_reason_and_what_is_behind_it_once(engines: Engines) -> None:
    told: list[tuple[str, BaseException]] = []
    failed = {"failed": lambda reason, cause: told.append((reason, cause))}
    engine = engines.make("f", script="def f(): pass\nraise ValueError('no')", context=failed)
    for _ in range(2):
        with pytest.raises(EngineUnavailable):
            await engines.call(engine)
    ((reason, cause),) = told
    assert reason.endswith("script_0.py:2: ValueError: no")
    assert "line 2, in <module>" in author_traceback(cause)


@pytest.mark.parametrize("name", ["Plain", "Wrong", "Async"])
async def test_a_class_that_is_no_reactor_says_so(tmp_path: Path, name: str) -> None:
    write(
        tmp_path,
        {
            "plain.py": """
                from enginehost.reactor import Reactor

                class Plain:
                    keys_to_get = ["a"]

                class Async:
                    async def execute(self):
                        return 1

                class Wrong(Reactor):
                    def __init__(self):
                        raise ValueError("not today")
            """
        },
    )
    context = EngineContext("r", path=tmp_path / "r.smss", signature=FunctionSignature("r"))
    engine = ReactorEngine(context, ReactorConfig(reactor_class_name=f"plain.{name}"))
    try:
        with pytest.raises(EngineUnavailable) as caught:
            await opened_and_called(engine)
    finally:
        await engine.close()
    expected = {
        "Plain": "TypeError: Plain is no Reactor; derive it from enginehost.reactor.Reactor",
        "Async": "TypeError: Async is no Reactor; derive it from enginehost.reactor.Reactor",
        "Wrong": "plain.py:13: ValueError: not today",
    }
    assert f"{LOADED}{expected[name]}" in caught.value.message


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("class It: pass", "TypeError: It is no AbstractFunctionEngine; derive it from"),
        (
            "class It(AbstractFunctionEngine):\n    def functions(self): raise ValueError('no')",
            "own.py:4: ValueError",
        ),
        (
            "class It(AbstractFunctionEngine):\n    async def open(self): raise ValueError('no')",
            "own.py:4: ValueError",
        ),
    ],
)
async def test_an_engine_class_that_cannot_serve_says_why(tmp_path: Path, body: str, said: str) -> None:
    write(tmp_path, {"own.py": f"\nfrom enginehost.engine import AbstractFunctionEngine\n{body}\n"})
    context: Any = EngineContext(
        "e",
        path=tmp_path / "e.smss",
        properties={"ENGINE_CLASS": "own:It"},
        signature=FunctionSignature("e"),
    )
    engine = ClassEngine(context)
    try:
        with pytest.raises(EngineHostError, match=said):
            await engine.open()
    finally:
        await engine.close()
