"""Errors in the words of a list of tools: a model was given no other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from enginehost.errors import EngineHostError, InvalidArguments, UnknownFunction
from enginehost.specs import errors_to, spec_kinds
from enginehost.validation import summary, unknown_names

if TYPE_CHECKING:
    from enginehost.host import Host


def for_model(
    host: Host, error: EngineHostError, kind: str, names: tuple[str, str], sent: Mapping[str, Any]
) -> EngineHostError:
    """``error`` of a call, for a model that has tools of ``kind`` and ``sent`` these arguments.

    ``names``: the function's own, and the one that the model knows.
    """
    own, shown = names
    if kind not in spec_kinds():
        return error
    if isinstance(error, UnknownFunction):
        faces = host.face_names(kind)
        known = (near for near in error.detail.get("nearest", ()) if host.catalog.get(near) is not None)
        return UnknownFunction(shown, nearest=[faces.to_face(near) for near in known])
    entry, found = host.catalog.get(own), error.detail.get("errors")
    if entry is not None and isinstance(error, InvalidArguments) and found:
        errors = errors_to(entry.signature, kind, found)
        for told in errors:
            if told["pointer"] == "" and isinstance(told.get("allowed"), list):
                told["message"] = unknown_names(sent, told["allowed"])
        if error.message == summary(own, found):
            return InvalidArguments(summary(shown, errors), errors=errors)
        error.detail["errors"] = errors
    if own != shown and error.message.startswith(own):
        error.message = shown + error.message.removeprefix(own)
    return error
