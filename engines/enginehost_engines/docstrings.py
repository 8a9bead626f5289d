"""What a docstring says of a function: Google's, numpy's, reST's and Epydoc's way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_SECTION = re.compile(r"^\s*(?:[A-Z][A-Za-z ]*:\s*$|-{3,}\s*$|[:@][a-z]+\b[^\n]*:)", re.MULTILINE)
"""A line by which one of the styles begins to speak of parameters or results."""
_TYPE = re.compile(r"^\s*:type\s+\*{0,2}(\w+)\s*:[ \t]*(\S[^\n]*)$", re.MULTILINE)
"""reST's type of a parameter, which the parser drops where no ``:param`` stands beside it."""


class DocumentedParameter(NamedTuple):
    """What a docstring says of one parameter; empty where it says nothing."""

    description: str
    type: str


class Documented(NamedTuple):
    """A docstring taken apart: ``result`` describes what the function answers."""

    description: str = ""
    parameters: Mapping[str, DocumentedParameter] = {}
    result: str = ""


def read_docstring(text: str) -> Documented:
    """Take a docstring apart, whose indentation is already taken away (``inspect.cleandoc``)."""
    if _SECTION.search(text) is None:
        return Documented(text.strip())
    from docstring_parser import ParseError, parse

    try:
        found = parse(text)
    except ParseError:
        return Documented(text.strip())
    description = "\n\n".join(part for part in (found.short_description, found.long_description) if part)
    parameters = {
        name.strip().lstrip("*"): DocumentedParameter(_joined(one.description), one.type_name or "")
        for one in found.params
        for name in one.arg_name.split(",")
    }
    for name, kind in _TYPE.findall(text):
        parameters.setdefault(name, DocumentedParameter("", kind.strip()))
    result = found.returns.description if found.returns is not None else ""
    return Documented(description.strip(), parameters, _joined(result))


def _joined(text: str | None) -> str:
    """A description whose lines were only broken to be short."""
    return re.sub(r"\s*\n\s*", " ", text or "").strip()
