"""``enginehost describe``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from json import dumps
from typing import Annotated, Any, cast

import typer

from enginehost.cli.example import example_call
from enginehost.cli.options import (
    BusInterface,
    Config,
    Domain,
    FolderOrUrl,
    Json,
    Kind,
    Name,
    OnBus,
    Token,
    Url,
)
from enginehost.cli.output import emphasised, escaped, one_line, print_json, printable, say
from enginehost.cli.source import BusPlace, Source, Where, ask
from enginehost.schema_references import resolved

app = typer.Typer()

_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
    "multipleOf": "a multiple of",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "pattern": "pattern",
    "minItems": "items at least",
    "maxItems": "items at most",
    "default": "default",
}
_DEEPEST = 5
"""Levels of lists and choices that are told."""


@app.command()
def describe(
    name: Name,
    kind: Annotated[
        str | None,
        Kind,
    ] = None,
    folder: FolderOrUrl = None,
    url: Url = None,
    token: Token = None,
    config: Config = None,
    bus: OnBus = False,
    domain: Domain = None,
    bus_interface: BusInterface = None,
    json: Json = False,
) -> None:
    """Describe a function, or print its spec for a vendor."""

    async def question(source: Source) -> dict[str, Any]:
        return await (source.spec(name, kind) if kind else source.describe(name))

    where = Where.given(folder, config, url, token, bus=BusPlace.given(bus, domain, bus_interface))
    about = ask(where, question, f"loading {where.name}")
    if kind or json:
        print_json(about)
    else:
        say("\n".join(_page(about, where)))


def _page(about: dict[str, Any], where: Where) -> Iterator[str]:
    yield emphasised(one_line(about["name"]), sys.stdout, "bold")
    if about["description"]:
        yield printable(about["description"])
    yield ""
    engine = about["engine"]
    reason = f" ({one_line(engine['reason'])})" if engine["reason"] else ""
    yield f"state     {about['state']}{reason}"
    yield f"engine    {one_line(engine['id'])}, {one_line(engine['kind'])}"
    if "path" in about:
        yield f"file      {escaped(about['path'])}"
    for title, facts in (
        ("tags", about["tags"]),
        ("limits", about["limits"]),
        ("hints", about["annotations"]),
    ):
        if facts:
            yield f"{title:<10}{_facts(facts)}"
    yield f"answers   {'item by item, ' if about['streaming'] else ''}{_result(about)}"
    yield ""
    yield from _parameters(about["parameters"])
    yield ""
    yield f"call it   {_example(about, where)}"


def _facts(facts: Any) -> str:
    if isinstance(facts, dict):
        return ", ".join(
            f"{key} {_compact(value)}" for key, value in facts.items() if value not in ("", None)
        )
    return one_line(", ".join(facts))


def _result(about: dict[str, Any]) -> str:
    result = about.get("result") or {}
    return _shape(result, result)


def _parameters(parameters: dict[str, Any]) -> Iterator[str]:
    properties, required = parameters.get("properties") or {}, parameters.get("required") or []
    further = parameters.get("additionalProperties", False)
    if not properties and further is False:
        yield "parameters: none"
        return
    yield "parameters"
    width = max(map(len, properties), default=0)
    for name, schema in properties.items():
        found = resolved(schema, parameters)
        about: dict[str, Any] = found if isinstance(found, dict) else {}
        facts = [_shape(about, parameters), "required" if name in required else "optional"]
        facts += [f"{word} {_compact(about[key])}" for key, word in _BOUNDS.items() if key in about]
        if text := one_line(str(about.get("description", ""))):
            facts.append(text)
        yield f"  {one_line(name):<{width}}  {', '.join(facts)}"
    if further is not False:
        yield f"  further names are allowed: {_shape(further, parameters)}"


def _shape(schema: Any, root: dict[str, Any], depth: int = 0) -> str:
    """What a JSON Schema allows, in a few words; ``root`` is the one that it is a part of."""
    schema = resolved(schema, root)
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return "anything"
    about = cast("dict[str, Any]", schema)
    if "enum" in about:
        return "one of " + ", ".join(map(_compact, about["enum"]))
    if choices := about.get("anyOf") or about.get("oneOf"):
        return " or ".join(dict.fromkeys(_shape(choice, root, depth + 1) for choice in choices))
    kind = about.get("type", "anything")
    text = one_line(kind if isinstance(kind, str) else " or ".join(map(str, kind)))
    if "items" in about:
        text += f" of {_shape(about['items'], root, depth + 1)}"
    return f"{text} ({one_line(str(about['format']))})" if "format" in about else text


def _compact(value: Any) -> str:
    return one_line(dumps(value, ensure_ascii=False))


def _example(about: dict[str, Any], where: Where) -> str:
    stream = ["--stream"] if about["streaming"] else []
    return example_call(about["name"], about["parameters"], *stream, *where.options)
