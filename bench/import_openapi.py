"""A document of 10,000 operations: written as smss files, and served live; time and the most memory.

Each run is a process of its own on one core. The document has 2,000 schemas that refer to each other, some to
themselves; JSON and YAML.

    python bench/import_openapi.py [RUNS=5] [COUNT=10000]
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from measuring import RUNS, SERVER_CORE, Spread, finish, introduce, pin, table, verdict

MOST_SECONDS = 60.0
MOST_MB = 500.0
SCHEMAS = 2000


def schema(number: int) -> dict[str, Any]:
    """An object of eight members; it refers to three others, one of them itself."""
    refs = (number, (number * 7 + 1) % SCHEMAS, (number + 1) % SCHEMAS)
    members: dict[str, Any] = {
        f"member_{index}": {
            "type": "string",
            "description": f"Member {index} of thing {number}.",
            "maxLength": 99,
        }
        for index in range(5)
    }
    for index, other in enumerate(refs):
        members[f"other_{index}"] = {"type": "array", "items": {"$ref": f"#/components/schemas/Thing{other}"}}
    return {"type": "object", "required": ["member_0"], "properties": members}


def operation(number: int) -> dict[str, Any]:
    """A POST with a body, or a GET with parameters."""
    ref = {"$ref": f"#/components/schemas/Thing{number % SCHEMAS}"}
    found: dict[str, Any] = {
        "operationId": f"operation{number}",
        "summary": f"Operation {number}.",
        "description": "What it does in more words, as documents have them. " * 3,
        "tags": [f"tag{number % 50}"],
        "parameters": [
            {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
            {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
            {"$ref": "#/components/parameters/Trace"},
        ],
        "responses": {"200": {"description": "It.", "content": {"application/json": {"schema": ref}}}},
    }
    if number % 2:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref}}}
    return found


def document(count: int) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, Any] = {}
    for number in range(count):
        paths[f"/things/{number}/{{id}}"] = {"post" if number % 2 else "get": operation(number)}
    trace = {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Many things", "version": "1"},
        "servers": [{"url": "https://things.example.org/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "parameters": {"Trace": trace},
            "schemas": {f"Thing{number}": schema(number) for number in range(SCHEMAS)},
        },
    }


def write_document(folder: Path, form: str, count: int) -> Path:
    """The document as a file."""
    path = folder / f"things.{form}"
    if form == "json":
        path.write_text(json.dumps(document(count)))
    else:
        import yaml

        with path.open("w") as file:
            yaml.dump(document(count), file, Dumper=yaml.CSafeDumper, sort_keys=False)
    return path


def measure_import(path: Path, folder: Path) -> dict[str, float]:
    """Write the files, as ``enginehost import openapi`` does."""
    from enginehost.cli import main

    begin = perf_counter()
    with Path(os.devnull).open("w") as nowhere:
        out, sys.stdout = sys.stdout, nowhere
        try:
            main(["import", "openapi", str(path), "--to", str(folder)])
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.stdout = out
    return {"seconds": perf_counter() - begin, "files": sum(1 for _ in folder.glob("*.smss"))}


def measure_live(path: Path, folder: Path) -> dict[str, float]:
    """Serve the document by one file."""
    from enginehost import Host, HostSettings

    folder.mkdir(exist_ok=True)
    (folder / "live.smss").write_text(f"ENGINE_CLASS = OpenAPI\nOPENAPI_SPEC = {path}\n")

    async def run() -> dict[str, float]:
        begin = perf_counter()
        async with Host(folder, None, settings=HostSettings()) as host:
            return {"seconds": perf_counter() - begin, "files": float(len(host.catalog))}

    return asyncio.run(run())


def run_apart(kind: str, path: Path, folder: Path) -> dict[str, float]:
    """One run in a process of its own."""
    command = [sys.executable, __file__, "one", kind, str(path), str(folder)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main(runs: int = RUNS, count: int = 10_000) -> None:
    """Measure, print, judge."""
    introduce(f"{count} operations of an OpenAPI document, on one core")
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        paths = {form: write_document(base, form, count) for form in ("json", "yaml")}
        sizes = ", ".join(f"{form} {path.stat().st_size / 1e6:.1f} MB" for form, path in paths.items())
        for _ in range(runs):
            for form, path in paths.items():
                for kind in ("import", "live"):
                    folder = base / f"{form}-{kind}"
                    one = run_apart(kind, path, folder)
                    shutil.rmtree(folder)
                    if one["files"] != count:
                        raise RuntimeError(f"{one['files']:g} of {count} operations came out")
                    found.setdefault(f"{kind} {form}", []).append(one)
    report(found, f"{count} operations ({sizes}); the most memory that the process had in RAM")


def report(found: dict[str, list[dict[str, float]]], title: str) -> None:
    """Print the table and whether the promises are kept."""
    rows: list[list[str]] = []
    for label, each in found.items():
        seconds, mb = Spread([one["seconds"] for one in each]), Spread([one["mb"] for one in each])
        rows.append([label, *seconds.cells(1), *mb.cells(0)])
        verdict(f"{label}: seconds", seconds.median, most=MOST_SECONDS)
        verdict(f"{label}: MB", mb.median, most=MOST_MB)
    table(title, ["", "s", "lowest", "highest", "MB", "lowest", "highest"], rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        pin(SERVER_CORE)
        measured = {"import": measure_import, "live": measure_live}[sys.argv[2]](
            Path(sys.argv[3]), Path(sys.argv[4])
        )
        measured["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(measured))
    else:
        main(*(int(given) for given in sys.argv[1:]))
        finish()
