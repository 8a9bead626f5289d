"""Every member that the ``detail`` of an error can have stands in errors.md, in the row of its code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from enginehost import errors
from enginehost.errors import EngineHostError

ROOT = Path(__file__).parents[2]
SOURCES = [*(ROOT / "host").rglob("*.py"), *(ROOT / "engines").rglob("*.py")]
TABLE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8").partition("members of `detail`")[2]
ROWS = {
    code: set(re.findall(r"`(\w+)`", text))
    for code, text in re.findall(r"^\| `(\w+)` \| (.+) \|$", TABLE.partition("\n\nA member")[0], re.MULTILINE)
}
CODES = {
    name: cls.code for name, cls in vars(errors).items() if isinstance(cls, type) and hasattr(cls, "code")
}

MADE = [
    errors.ConfigError("x", hint="y"),
    errors.UnknownFunction("x"),
    errors.UnknownSession("x"),
    errors.InvalidArguments("x"),
    errors.TooLarge("x", limit=1, size=2),
    errors.Overloaded("x"),
    errors.CallTimeout("x", 1.0),
    errors.EngineUnavailable("x", state="failed", reason="y"),
]
"""The errors whose constructors make the detail."""


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def detail_of(call: ast.Call) -> Iterator[str]:
    """The keys of a ``detail={…}`` that are written out."""
    for keyword in call.keywords:
        if keyword.arg == "detail":
            for node in ast.walk(keyword.value):
                if isinstance(node, ast.Dict):
                    yield from (key.value for key in node.keys if isinstance(key, ast.Constant))  # pyright: ignore


def code_of(call: ast.Call) -> str | None:
    """The code of the error that is made, where its class is named."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return CODES.get(function.value.id)  # ``ResultInvalid.__init__(self, …)``
    return CODES.get(function.id) if isinstance(function, ast.Name) else None


def written() -> Iterator[tuple[str | None, str]]:
    """Code (if it can be told) and key of every detail in the code."""
    for path in SOURCES:
        for call in calls(ast.parse(path.read_text(encoding="utf-8"))):
            yield from ((code_of(call), key) for key in detail_of(call))


@pytest.mark.parametrize("error", MADE, ids=lambda error: error.code)
def test_what_a_constructor_puts_into_detail_is_in_the_row(error: EngineHostError) -> None:
    assert set(error.detail) - ROWS[error.code] == set()


def test_what_the_code_puts_into_detail_is_in_the_row() -> None:
    found = set(written())
    assert {
        ("execution_failed", "exit"),
        ("invalid_request", "kinds"),
        ("result_invalid", "pointer"),
    } <= found
    everywhere = set().union(*ROWS.values(), {"hint"})
    assert [
        pair for pair in found if pair[1] not in (ROWS.get(pair[0], everywhere) if pair[0] else everywhere)
    ] == []


def test_why_a_proof_does_not_hold_is_in_the_row() -> None:
    text = "".join(
        (ROOT / "host" / "enginehost" / name).read_text(encoding="utf-8") for name in ("jwt.py", "auth.py")
    )
    reasons = set(re.findall(r'refused\("(\w+)"|detail=\{"reason": "(\w+)"\}', text))
    words = {one or other for one, other in reasons}
    assert {"expired", "unknown"} <= words
    assert words - ROWS["unauthorized"] == set()


def test_every_row_is_of_a_code() -> None:
    assert set(ROWS) <= set(errors.ERROR_TABLE)
