"""What is wrong with arguments, told to a model in the names that it was given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from enginehost.signature import FunctionSignature
from enginehost.specs._parameters import parameter_names


def errors_out(
    signature: FunctionSignature, kind: str, errors: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Entries of ``InvalidArguments`` with the parameters as ``kind`` names them."""
    names = parameter_names(signature.parameters, kind)
    return [_renamed(entry, names) for entry in errors]


def _renamed(entry: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    _, *tokens = str(entry.get("pointer", "")).split("/")
    if tokens:
        # what is said of one parameter does not name it: only its place does
        own = tokens[0].replace("~1", "/").replace("~0", "~")
        face = names.get(own)
        return {**entry, "pointer": "/".join(["", face, *tokens[1:]])} if face else dict(entry)
    message = str(entry.get("message", ""))
    for own, face in names.items():
        message = message.replace(_quoted(own), _quoted(face)).replace(repr(own), repr(face))
    allowed = entry.get("allowed")
    if isinstance(allowed, list):
        return {**entry, "message": message, "allowed": [names.get(str(name), name) for name in allowed]}
    return {**entry, "message": message}


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
