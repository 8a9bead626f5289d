"""The document and those that it refers to, and what a ``$ref`` means."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from enginehost.errors import ConfigError
from enginehost_engines.openapi.faults import ROOT, Found, Pointer, Unmappable, broken, text_of
from enginehost_engines.openapi.reading import MAX_BYTES, decoded, read

MAX_DOCUMENTS = 200
"""Documents that one may refer to, directly or not."""

_MOST_HOPS = 32

Fetch = Callable[[str], bytes]
"""Gets the bytes behind a URL; raises :class:`ConfigError`, or what a host takes for a passing failure."""


class Located(NamedTuple):
    """A value with its place."""

    value: Any
    pointer: Pointer = ()
    document: str = ROOT

    def child(self, token: str) -> Located:
        """The member of an object; ``None`` as its value where there is none."""
        members = cast("dict[str, Any]", self.value) if isinstance(self.value, dict) else {}
        return Located(members.get(token), (*self.pointer, token), self.document)

    def items(self) -> Iterator[tuple[str, Located]]:
        """The members of an object; none of anything else."""
        for token in cast("dict[str, Any]", self.value) if isinstance(self.value, dict) else ():
            yield token, self.child(token)

    def entries(self) -> Iterator[Located]:
        """The items of a list; none of anything else."""
        for number, item in enumerate(cast("list[Any]", self.value) if isinstance(self.value, list) else ()):
            yield Located(item, (*self.pointer, str(number)), self.document)

    def text(self, token: str) -> str:
        """A member that is text; ``""`` where it is not."""
        found = self.child(token).value
        return found if isinstance(found, str) else ""

    def found(self, message: str) -> Found:
        """A finding at this place."""
        return Found(message, self.pointer, self.document)


@dataclass(slots=True)
class Documents:
    """All documents by their keys (see :data:`ROOT`), and why some could not be read."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict, repr=False)
    failures: dict[str, str] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    url: str = ""

    @property
    def root(self) -> Located:
        """The document itself."""
        return Located(self.values[ROOT])

    def name_of(self, document: str) -> str:
        """What people call a document."""
        return document or self.name

    def follow(self, node: Located) -> Located:
        """What a Reference Object means; anything else is itself. Raises :class:`Unmappable`."""
        for _ in range(_MOST_HOPS):
            reference = node.value.get("$ref") if isinstance(node.value, dict) else None
            if not isinstance(reference, str):
                return node
            node = self.target(node, reference)
        raise Unmappable(node.found("the references lead in a circle"))

    def target(self, node: Located, reference: str) -> Located:
        """What ``reference`` means at ``node``. Raises :class:`Unmappable` where it means nothing."""
        address, _, fragment = reference.partition("#")
        document = resolved(node.document, address, self.url) if address else node.document
        if document not in self.values:
            reason = self.failures.get(document or "", "it was not read")
            raise Unmappable(node.found(f"the reference {reference[:200]!r} leads nowhere: {reason}"))
        if fragment and not fragment.startswith("/"):
            raise Unmappable(node.found(f"the reference {reference[:200]!r} is no JSON Pointer"))
        tokens = tuple(
            unquote(token).replace("~1", "/").replace("~0", "~") for token in fragment.split("/")[1:]
        )
        value = self.values[document]
        for token in tokens:
            value = _member(value, token)
            if value is _NOTHING:
                raise Unmappable(node.found(f"the reference {reference[:200]!r} leads nowhere"))
        return Located(value, tokens, document or ROOT)


_NOTHING: Any = object()


def _member(value: Any, token: str) -> Any:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(token, _NOTHING)
    if isinstance(value, list) and token.isascii() and token.isdigit():
        items = cast("list[Any]", value)
        return items[int(token)] if len(token) < 10 and int(token) < len(items) else _NOTHING
    return _NOTHING


def is_url(text: str) -> bool:
    """Whether a source is a URL, not a file."""
    return text[:8].lower().startswith(("http://", "https://"))


def resolved(base: str, address: str, url: str) -> str | None:
    """The key of the document ``address`` beside the document ``base``; ``None`` for what can be none.

    ``url`` is that of the first document, empty where it is a file. Files are named by their path beside
    the first, with ``/``.
    """
    try:
        key = None if "\0" in unquote(address) else _resolved(base, address, url)
        return key if key is None or urlsplit(key).netloc or not is_url(key) else None
    except ValueError:  # what looks like a URL and is none
        return None


def _resolved(base: str, address: str, url: str) -> str | None:
    if is_url(address):
        whole = urldefrag(address)[0]
        return ROOT if whole == url else whole
    here = base if is_url(base) else url
    if here:
        whole = urldefrag(urljoin(here, address))[0]
        return ROOT if whole == url else whole
    if urlsplit(address).scheme or address.startswith(("/", "\\")):
        return None
    parts: list[str] = base.split("/")[:-1]
    for part in unquote(address).replace("\\", "/").split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def load_file(path: Path, fetch: Fetch, *, remote: bool) -> Documents:
    """The document in a file, with the files below its folder, and URLs (``remote``), that it refers to."""
    documents = Documents(path.name)
    _add(documents, ROOT, read_file(path))
    documents.files.append(path)
    _add_others(documents, path, fetch, remote=remote)
    return documents


def load_url(url: str, data: bytes, fetch: Fetch, *, remote: bool) -> Documents:
    """The document ``data`` behind a URL, with those beside it, and others (``remote``), it refers to."""
    documents = Documents(shown_url(url), url=url)
    _add(documents, ROOT, data)
    _add_others(documents, None, fetch, remote=remote)
    return documents


def shown_url(url: str) -> str:
    """A URL as it may be shown: without credentials and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def _add(documents: Documents, key: str, data: bytes) -> None:
    text = decoded(data, documents.name_of(key))
    documents.values[key] = read(text, documents.name_of(key))
    documents.texts[key] = text


def _add_others(documents: Documents, path: Path | None, fetch: Fetch, *, remote: bool) -> None:
    waiting, size = [ROOT], len(documents.texts[ROOT])
    while waiting:
        base = waiting.pop()
        for address in _addresses(documents.values[base]):
            key = resolved(base, address, documents.url)
            if key is None:
                documents.failures.setdefault("", "only what lies in the document's own folder is read")
            elif key not in documents.values and key not in documents.failures:
                try:
                    if len(documents.values) >= MAX_DOCUMENTS:
                        raise broken(f"it is one of more than {MAX_DOCUMENTS} documents")
                    data = _bytes(documents, key, path, fetch, remote=remote)
                    size += len(data)
                    if size > MAX_BYTES:
                        raise broken(f"all documents together have more than {MAX_BYTES} bytes")
                    _add(documents, key, data)
                    waiting.append(key)
                except ConfigError as error:
                    documents.failures[key] = error.message.removeprefix("OPENAPI_SPEC: ")


def _addresses(value: Any) -> list[str]:
    """The documents that the references in a value name, each once, in order."""
    found: dict[str, None] = {}
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            members = cast("dict[str, Any]", part)
            reference = members.get("$ref")
            if isinstance(reference, str) and (address := reference.partition("#")[0]):
                found[address] = None
            waiting.extend(item for item in members.values() if isinstance(item, dict | list))
        elif isinstance(part, list):
            waiting.extend(item for item in cast("list[Any]", part) if isinstance(item, dict | list))
    return sorted(found)


def _bytes(documents: Documents, key: str, path: Path | None, fetch: Fetch, *, remote: bool) -> bytes:
    if is_url(key):
        if not remote and not _is_beside(key, documents.url):
            raise broken("it is another server's; OPENAPI_REMOTE_REFS = true, or --remote-refs, allows it")
        return fetch(key)
    if path is None:
        raise broken("it is no URL")
    folder = path.resolve().parent
    other = (folder / key).resolve()
    if not other.is_relative_to(folder):
        raise broken("only what lies in the document's own folder is read")
    data = read_file(other, key)
    documents.files.append(path.parent / key)
    return data


def _is_beside(url: str, root: str) -> bool:
    """Whether a URL lies in, or below, the folder of ``root``."""
    one, other = urlsplit(url), urlsplit(root)
    folder = other.path.rpartition("/")[0] + "/"
    same = (one.scheme, one.netloc) == (other.scheme, other.netloc)
    return same and one.path.startswith(folder) and ".." not in unquote(one.path).split("/")


def read_file(path: Path, name: str = "") -> bytes:
    """The bytes of a regular file. Raises :class:`ConfigError`."""
    name = name or path.name
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise broken("it is no regular file", name=name)
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not usable"
        raise broken(f"it cannot be read: {reason}", name=name, hint="name a file or a URL") from None
    if len(data) > MAX_BYTES:
        raise broken(f"it has more than {MAX_BYTES} bytes", name=name)
    return data


__all__ = ["Documents", "Fetch", "Located", "load_file", "load_url", "resolved", "shown_url", "text_of"]
