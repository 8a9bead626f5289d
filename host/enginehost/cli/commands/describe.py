"""``enginehost describe``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from json import dumps
from typing import Annotated, Any

import typer

from enginehost.cli.example import example_call
from enginehost.cli.options import DEFAULT_FOLDER, Config, Folder, Json, Kind, Name, Token, Url
from enginehost.cli.output import emphasised, one_line, print_json, printable, say
from enginehost.cli.source import Source, Where, ask

app = typer.Typer()


@app.command()
def describe(
    name: Name,
    kind: Annotated[
        str | None,
        Kind,
    ] = None,
    folder: Folder = DEFAULT_FOLDER,
    url: Url = None,
    token: Token = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Describe a function, or print its spec for a vendor."""

    async def question(source: Source) -> dict[str, Any]:
        return await (source.spec(name, kind) if kind else source.describe(name))

    about = ask(Where(folder, config, url, token), question, f"loading {url or folder}")
    if kind or json:
        print_json(about)
    else:
        say("\n".join(_page(about, url)))


def _page(about: dict[str, Any], url: str | None) -> Iterator[str]:
    yield emphasised(one_line(about["name"]), sys.stdout, "bold")
    if about["description"]:
        yield printable(about["description"])
    yield ""
    engine = about["engine"]
    reason = f" ({one_line(engine['reason'])})" if engine["reason"] else ""
    yield f"state     {about['state']}{reason}"
    yield f"engine    {one_line(engine['id'])}, {one_line(engine['kind'])}"
    if "path" in about:
        yield f"file      {printable(about['path'])}"
    for title, facts in (
        ("tags", about["tags"]),
        ("limits", about["limits"]),
        ("hints", about["annotations"]),
    ):
        if facts:
            yield f"{title:<10}{_facts(facts)}"
    yield f"answers   {'item by item, ' if about['streaming'] else ''}{_shape(about.get('result') or {})}"
    yield ""
    yield from _parameters(about["parameters"])
    yield ""
    yield f"call it   {_example(about, url)}"


def _facts(facts: Any) -> str:
    if isinstance(facts, dict):
        return ", ".join(
            f"{key} {_compact(value)}" for key, value in facts.items() if value not in ("", None)
        )
    return one_line(", ".join(facts))


def _parameters(parameters: dict[str, Any]) -> Iterator[str]:
    properties, required = parameters.get("properties") or {}, parameters.get("required") or []
    if not properties:
        yield "parameters: none"
        return
    yield "parameters"
    width = max(map(len, properties))
    for name, schema in properties.items():
        about: dict[str, Any] = schema if isinstance(schema, dict) else {}
        facts = [_shape(about), "required" if name in required else "optional"]
        if "default" in about:
            facts.append(f"default {_compact(about['default'])}")
        if text := one_line(str(about.get("description", ""))):
            facts.append(text)
        yield f"  {one_line(name):<{width}}  {', '.join(facts)}"


def _shape(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(map(_compact, schema["enum"]))
    kind = schema.get("type", "anything")
    return one_line(kind if isinstance(kind, str) else " or ".join(map(str, kind)))


def _compact(value: Any) -> str:
    return one_line(dumps(value, ensure_ascii=False))


def _example(about: dict[str, Any], url: str | None) -> str:
    stream = ["--stream"] if about["streaming"] else []
    where = ["--url", url] if url else []
    return example_call(about["name"], about["parameters"], *stream, *where)
