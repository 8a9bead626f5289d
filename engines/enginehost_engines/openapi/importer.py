"""``enginehost import openapi``: a smss file for each operation of a document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from enginehost.errors import ConfigError
from enginehost.importing import Imported, ImportedFile, Note, Shared
from enginehost_engines.openapi.documents import Documents, is_url, load_file, load_url, shown_url
from enginehost_engines.openapi.faults import Found, Unmappable, text_of
from enginehost_engines.openapi.lines import lines_of
from enginehost_engines.openapi.names import free_name
from enginehost_engines.openapi.operations import Contents, Mapper, Operation, Selection, contents_of
from enginehost_engines.openapi.smss import file_stem, secret_name, smss_of
from enginehost_engines.rest.url import parse


def openapi(
    spec: Annotated[
        str, typer.Argument(help="An OpenAPI 3.0 or 3.1 document, YAML or JSON: a file or a URL.")
    ],
    include: Annotated[
        list[str] | None,
        typer.Option(
            help="Only operations that match: a function's name, a path, `GET /pets*`, `tag:store`; * ? […].",
            show_default=False,
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Without operations that match.", show_default=False)
    ] = None,
    base_url: Annotated[
        str,
        typer.Option(help="Where the service is, in place of the document's servers.", show_default=False),
    ] = "",
    tag: Annotated[
        list[str] | None, typer.Option(help="A further tag for each function.", show_default=False)
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="What each function's name begins with.", show_default=False)
    ] = "",
    remote_refs: Annotated[
        bool, typer.Option("--remote-refs", help="Also read what the document refers to on other servers.")
    ] = False,
) -> Imported:
    """Write a smss file for each operation of an OpenAPI document."""
    if base_url:
        _check_base(base_url)
    if prefix and not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", prefix):
        raise ConfigError("--prefix has letters, digits, _ and -, at most 32", reason="bad-prefix")
    selection = Selection(tuple(include or ()), tuple(exclude or ()), prefix, tuple(tag or ()), base_url)
    return imported(_load(spec, remote=remote_refs), selection)


def _check_base(base_url: str) -> None:
    try:
        parse(base_url)
    except ConfigError as error:
        message = error.message.replace("API_ENDPOINT_URL", "--base-url")
        raise ConfigError(message, hint=error.hint, reason=error.reason) from None


def _load(spec: str, *, remote: bool) -> Documents:
    from enginehost_engines.openapi.fetching import fetch_now

    if is_url(spec):
        return load_url(spec, fetch_now(spec), fetch_now, remote=remote)
    return load_file(Path(spec), fetch_now, remote=remote)


def imported(documents: Documents, selection: Selection) -> Imported:
    """All files of a document. Raises :class:`ConfigError` where none can be made of it."""
    contents = contents_of(documents, selection)
    mapper = Mapper(documents, selection)
    made: list[Operation] = []
    for entry in contents.entries:
        try:
            made.append(mapper.operation(entry))
        except Unmappable as error:
            contents.skipped.append((entry.origin, error.found))
    title = documents.root.child("info").text("title") or documents.name.rpartition("/")[2].partition(".")[0]
    folder = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-") or "openapi"
    places = _Lines(documents, _all_findings(contents, made))
    return Imported(
        source=documents.name,
        folder=folder,
        files=_files(made, folder, places),
        skipped=[places.note(found, f"{origin}: {found.message}") for origin, found in contents.skipped],
        notes=[
            *(places.note(found, found.message) for found in contents.notes),
            *_secrets_needed(made, folder),
        ],
    )


def _secrets_needed(made: Iterable[Operation], prefix: str) -> Iterator[Note]:
    """Which secrets the files take: without them their engines do not open."""
    found = {
        secret_name(prefix, name): None
        for operation in made
        for name in (*operation.security.secrets.values(), *operation.hidden.values())
    }
    if found:
        hint = "see `enginehost validate` for where they may be put"
        yield Note(f"the functions take the secrets {', '.join(found)}: {hint}")


def _all_findings(contents: Contents, made: Iterable[Operation]) -> Iterator[Found]:
    yield from contents.notes
    yield from (found for _, found in contents.skipped)
    for operation in made:
        yield from operation.notes


def _files(made: list[Operation], secrets: str, places: _Lines) -> Iterator[ImportedFile]:
    taken: set[str] = set()
    shared: Shared = {}
    for operation in made:
        stem = free_name(file_stem(operation.name), taken)
        taken.add(stem.casefold())
        yield ImportedFile(
            f"{stem}.smss",
            smss_of(operation, secrets, shared),
            operation.name,
            f"{operation.method} {operation.path}",
            [places.note(found, found.message) for found in operation.notes],
        )


class _Lines:
    """The lines of all findings, looked up at once."""

    def __init__(self, documents: Documents, findings: Iterable[Found]) -> None:
        self._documents = documents
        wanted: dict[str, set[tuple[str, ...]]] = {}
        for found in findings:
            wanted.setdefault(found.document, set()).add(found.pointer)
        self._lines = {
            name: lines_of(documents.texts[name], documents.name_of(name), pointers)
            for name, pointers in wanted.items()
        }

    def note(self, found: Found, message: str) -> Note:
        """The finding with its line."""
        name = self._documents.name_of(found.document)
        line = self._lines[found.document][found.pointer]
        return Note(message, text_of(found.pointer), line, shown_url(name) if is_url(name) else name)
