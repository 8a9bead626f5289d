"""``INIT_FUNCTION_ENGINE``: what is the file's own is pasted, what comes from outside cannot break out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.interpret import interpret
from enginehost.substitute import Code, Sources
from enginehost_engines.init_code import init_commands

from .conftest import Engines

NASTY = [
    "'",
    '"',
    "'; import os; os._exit(1); '",
    "\\",
    "\\'",
    '"""',
    "a\nb\r\n",
    "{x}",
    "%s",
    "\x00",
    "${OTHER}",
    "_outside_0_0_",
    "# x",
    "ünï",
]
FORMS = [
    ("key = '${secret:db}'", lambda text: text),
    ('key = "a${secret:db}b"', lambda text: f"a{text}b"),
    ("key = r'a\\${secret:db}'", lambda text: f"a\\{text}"),
    ("key = '''${secret:db}\n'''", lambda text: f"{text}\n"),
    ("key = f'{1}${secret:db}{2}'", lambda text: f"1{text}2"),
    ("key = f'{\"${secret:db}\"}'", lambda text: text),
    ("key = b'x${secret:db}'", lambda text: b"x" + text.encode()),
    ("key = {'a': ['${secret:db}']}['a'][0]", lambda text: text),
    ("key = str('${COPY}')", lambda text: text),
]


def init_of(template: str, secret: str, **keys: str) -> Code:
    written = template.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    lines = [f"INIT_FUNCTION_ENGINE = {written}", *(f"{key} = {text}" for key, text in keys.items())]
    sources = Sources(secret={"db": secret}.get)
    declaration = interpret("\n".join(lines).encode(), Path("x.smss"), sources)
    assert not declaration.has_errors
    return declaration.code("INIT_FUNCTION_ENGINE")


def run(code: Code) -> dict[str, Any]:
    space: dict[str, Any] = {}
    for command in init_commands(code.text, code.texts):
        exec(command, space)
    return space


@pytest.mark.parametrize("form", FORMS, ids=[template for template, _ in FORMS])
def test_a_nasty_secret_arrives_as_it_is(form: Any) -> None:
    template, expected = form
    for secret in NASTY:
        code = init_of(template, secret, COPY="${secret:db}")
        assert secret not in code.text or secret in template
        assert run(code)["key"] == expected(secret)


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=30))
@settings(max_examples=60, deadline=None)
def test_any_secret_arrives_as_it_is(secret: str) -> None:
    for template, expected in FORMS:
        assert run(init_of(template, secret, COPY="${secret:db}"))["key"] == expected(secret)


@pytest.mark.parametrize(
    ("secret", "value"),
    [
        ("5", 5),
        ("-2.5", -2.5),
        ("True", True),
        ("'a'", "a"),
        ("hunter2", "hunter2"),
        ("print(1)", "print(1)"),
        ("[1]", "[1]"),
        ("1 if x else 2", "1 if x else 2"),
        ("", ""),
    ],
)
def test_outside_quotes_a_secret_is_the_literal_that_it_writes_or_a_text(secret: str, value: Any) -> None:
    found = run(init_of("key = ${secret:db}", secret))["key"]
    assert (found, type(found)) == (value, type(value))


def test_the_files_own_keys_are_pasted() -> None:
    code = init_of("key = ${FACTOR} * 2; name = '${NAME}'", "", FACTOR="1 + 2", NAME="x")
    assert code.texts == {}
    assert (run(code)["key"], run(code)["name"]) == (5, "x")


def test_a_key_from_a_secret_store_counts_as_outside() -> None:
    declaration = interpret(b"INIT_FUNCTION_ENGINE = key = '${DB}'", Path("x.smss"))
    declaration.overlay({"DB": "it's"})
    assert run(declaration.code("INIT_FUNCTION_ENGINE"))["key"] == "it's"


@pytest.mark.parametrize(
    "template",
    [
        "${secret:db} = 1",
        "import ${secret:db}",
        "def ${secret:db}(): pass",
        "x.${secret:db}",
        "f(${secret:db}=1)",
    ],
)
def test_where_only_a_name_can_stand_a_secret_is_refused(template: str) -> None:
    code = init_of(template, "os")
    with pytest.raises((ValueError, SyntaxError)):
        init_commands(code.text, code.texts)


async def test_a_worker_gets_the_secret(engines: Engines) -> None:
    code = init_of("key = '${secret:db}'; twice = key * 2", "it's; \"\\")
    engine = engines.make("f", script="def f(): return key, twice", init_function_engine=code)
    assert await engines.call(engine) == ("it's; \"\\", "it's; \"\\" * 2)
    assert "it's" not in repr(engine.config)
    await asyncio.sleep(0)
