"""A script with types of every kind, and what is read of a function in it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from enginehost_engines.python_signature import describe
from enginehost_engines.python_source import read_source

HEAD = """
from __future__ import annotations
import datetime as dt, decimal, enum, pathlib, typing, uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, Union
from pydantic import BaseModel, Field
from annotated_types import Ge, MaxLen

class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"

@dataclass
class Point:
    "A place."
    x: float
    y: float = 0.0
    marks: list[str] = field(default_factory=list)
    size: float = field(init=False, default=1.0)

@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)

class Span(NamedTuple):
    start: date
    days: int = 1

class Options(TypedDict, total=False):
    deep: typing.Required[bool]
    limit: int

class Order(BaseModel):
    number: int = Field(ge=1, description="Its number", alias="no")
    note: str | None = None

UserId = NewType("UserId", int)
Names = list[str]
"""


def described(tmp_path: Path, definition: str) -> Any:
    """What is read of the function ``f`` in a script."""
    script = tmp_path / "script.py"
    script.write_text(HEAD + textwrap.dedent(definition))
    return describe(read_source(script), "f")
