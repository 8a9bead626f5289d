"""Folders of smss files to measure with."""

from __future__ import annotations

from pathlib import Path

NO_PORT = 9
"""Where nobody listens: for REST files that are not called."""

_HEAD = """\
ENGINE = id-{name}
FUNCTION_NAME = {name}
FUNCTION_DESCRIPTION = Adds two numbers
FUNCTION_PARAMETERS = [{{"name":"a","type":"number","description":"first"}}, \\
    {{"name":"b","type":"number","description":"second"}}]
FUNCTION_REQUIRED_PARAMETERS = ["a","b"]
FUNCTION_TAGS = math
"""
_PYTHON = """\
ENGINE_CLASS = LocalPython
PYTHON_SCRIPT_PATH = add.py
PYTHON_FUNCTION_NAME = {function}
"""
_KINDS = {
    "LocalPython": _PYTHON,
    "LocalPython in the host": _PYTHON + "PYTHON_ISOLATION = none\n",
    "LocalPython in the host, limited": _PYTHON
    + "PYTHON_ISOLATION = none\nMAX_CONCURRENCY = 1000\nRATE_LIMIT = 10000000/s\n",
    "Adder": "ENGINE_CLASS = Adder\n",
    "REST": "ENGINE_CLASS = REST\nHTTP_METHOD = GET\nAPI_ENDPOINT_URL = http://127.0.0.1:{port}/{name}\n",
}
_SCRIPT = """\
import asyncio


def add(a: float, b: float) -> float:
    return a + b


async def add_async(a: float, b: float) -> float:
    return a + b


async def add_waiting(a: float, b: float) -> float:
    await asyncio.sleep(0)
    return a + b
"""


def declaration(kind: str, name: str, function: str = "add", port: int = NO_PORT) -> str:
    """The smss file of one function that adds ``a`` and ``b``; ``port`` is where the REST service listens."""
    return (_HEAD + _KINDS[kind]).format(name=name, function=function, port=port)


def write_folder(folder: Path, kind: str, count: int, port: int = NO_PORT) -> None:
    """``count`` files ``f0.smss``, ``f1.smss``, … and the script they name."""
    write_script(folder)
    for number in range(count):
        name = f"f{number}"
        (folder / f"{name}.smss").write_text(declaration(kind, name, port=port))


def write_script(folder: Path) -> None:
    """``add.py`` with ``add``, ``add_async`` and ``add_waiting``."""
    (folder / "add.py").write_text(_SCRIPT)


def write(folder: Path, kind: str, name: str, function: str = "add") -> None:
    """One smss file."""
    (folder / f"{name}.smss").write_text(declaration(kind, name, function))
