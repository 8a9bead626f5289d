"""Where an operation is called: the first server that the document names, with its variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urljoin

from enginehost.errors import ConfigError
from enginehost_engines.openapi.documents import Documents, Located
from enginehost_engines.openapi.faults import Found, Unmappable
from enginehost_engines.rest.url import parse

_PLACE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Server:
    """A base URL without a slash at its end. ``{name}`` in ``template`` stands for one of ``variables``."""

    template: str
    variables: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    """What people may write for a variable instead, in words."""

    @property
    def url(self) -> str:
        """The base URL with the defaults of its variables."""
        return _PLACE.sub(lambda found: self.variables.get(found[1], found[0]), self.template)


def server_of(documents: Documents, nodes: list[Located], base_url: str, notes: list[Found]) -> Server:
    """The server that counts: the operation's, else the path's, else the document's (``nodes``, in order).

    ``base_url`` takes the place of all. Raises :class:`Unmappable` where there is none.
    """
    if base_url:
        return Server(base_url.rstrip("/"))
    listed = next((one for node in nodes if (one := node.child("servers")).value), None)
    first = next(listed.entries(), None) if listed is not None else None
    url = first.text("url") if first is not None else "/"
    node = first or nodes[-1]
    if "://" not in url.partition("{")[0] and not _has_scheme_variable(url, node):
        if not documents.url:
            raise Unmappable(node.found("the document names no host: give one with --base-url"))
        url = urljoin(documents.url, url)
    server = _filled(url, node, notes)
    try:
        parse(server.url or "x")
    except ConfigError as error:
        message = error.message.replace("API_ENDPOINT_URL", "the URL of the server")
        raise Unmappable(node.found(f"{message}; give another with --base-url")) from None
    return server


def _has_scheme_variable(url: str, node: Located) -> bool:
    return "://" in url and url.startswith("{")


def _filled(url: str, node: Located, notes: list[Found]) -> Server:
    variables: dict[str, str] = {}
    choices: dict[str, str] = {}
    for name in dict.fromkeys(_PLACE.findall(url)):
        variable = node.child("variables").child(name)
        default: Any = variable.child("default").value
        if default is None:
            listed = variable.child("enum").value
            default = cast("list[Any]", listed)[0] if isinstance(listed, list) and listed else None
        if default is None or isinstance(default, dict | list):
            raise Unmappable(node.found(f"the server's variable {name!r} has no default"))
        variables[name] = str(default)
        choices[name] = _choice(variable)
    if "?" in url or "#" in url:
        notes.append(node.found("the query of the server's URL is left out"))
        url = re.split(r"[?#]", url)[0]
    return Server(url.rstrip("/"), variables, choices)


def _choice(variable: Located) -> str:
    listed = variable.child("enum").value
    words = ", ".join(map(str, cast("list[Any]", listed))) if isinstance(listed, list) else ""
    return ": ".join(part for part in (variable.text("description"), words) if part)
