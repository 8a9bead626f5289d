"""Every face of a signature: the tool formats of vendors and protocols, and the way back.

========================  =====================================================================
kind                      what :func:`to_spec` gives
========================  =====================================================================
``json-schema``           the schema of the arguments, 2020-12, titled with the name
``openai``                a tool of Chat Completions
``openai-strict``         the same, ``strict`` where OpenAI's subset can say the parameters
``openai-responses``      a tool of the Responses API
``bedrock``               a ``toolSpec`` of Converse
``anthropic``             a tool of the Messages API
``gemini``                a ``FunctionDeclaration`` with ``parametersJsonSchema``
``mcp``                   a Tool of MCP 2025-11-25
``genesis``               the describing members of a ``FunctionCapability`` on the databus
========================  =====================================================================

What a vendor's schema cannot say stands in the description, for the model to read; the host checks
the arguments against the full schema in any case.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from enginehost.errors import ConfigError, InvalidRequest, shortened
from enginehost.names import face_name
from enginehost.signature import FunctionSignature
from enginehost.specs._arguments import arguments_in, arguments_out
from enginehost.specs._errors import errors_out
from enginehost.specs._kind import SpecKind, SpecMapper
from enginehost.specs._open import GENESIS, JSON_SCHEMA, MCP
from enginehost.specs._openai import OPENAI, OPENAI_RESPONSES, OPENAI_STRICT
from enginehost.specs._vendors import ANTHROPIC, BEDROCK, GEMINI

_KINDS: dict[str, SpecKind] = {
    "json-schema": JSON_SCHEMA,
    "openai": OPENAI,
    "openai-strict": OPENAI_STRICT,
    "openai-responses": OPENAI_RESPONSES,
    "bedrock": BEDROCK,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "mcp": MCP,
    "genesis": GENESIS,
}

_MOST_NAME = 100
"""Characters of a kind that nobody knows that are said."""

SPEC_KINDS: tuple[str, ...] = tuple(_KINDS)
"""The kinds that are always there; :func:`spec_kinds` has those of plugins too."""


def spec_kinds() -> tuple[str, ...]:
    """All kinds there are now."""
    return tuple(_KINDS)


def register_spec_kind(kind: str, mapper: SpecMapper) -> Callable[[], None]:
    """Add a kind; the returned function takes it out again.

    ``mapper(signature, name)`` gives the spec; ``name`` fits ``[A-Za-z0-9_-]{1,64}``.
    Raises :class:`ConfigError` where the kind exists.
    """
    if kind in _KINDS:
        raise ConfigError(f"the spec kind {kind!r} exists already", reason="duplicate-spec-kind")
    _KINDS[kind] = SpecKind(mapper)

    def remove() -> None:
        _KINDS.pop(kind, None)

    return remove


def to_spec(signature: FunctionSignature, kind: str, *, name: str | None = None) -> dict[str, Any]:
    """The face of ``signature`` of this ``kind``: a fresh JSON object.

    ``name`` is the name to show, where the catalog knows it (:class:`~enginehost.names.FaceNames`);
    otherwise :func:`~enginehost.names.face_name` gives it. Raises :class:`InvalidRequest` for an
    unknown kind.
    """
    shown = face_name(signature.name, kind) if name is None else name
    return _kind(kind).show(signature, shown)


def signature_from_spec(spec: Mapping[str, Any], kind: str) -> FunctionSignature:
    """The inverse of :func:`to_spec`, as far as the kind carries.

    Names come back as they stand on the face. From ``openai-strict`` every parameter that may be
    ``null`` comes back optional. Raises :class:`InvalidRequest` for what is no such spec.
    """
    read = _kind(kind).read
    if read is None:
        raise InvalidRequest(f"a spec of kind {kind!r} cannot be read back", detail={"kind": kind})
    return read(spec)


def arguments_from(
    signature: FunctionSignature, kind: str, arguments: Mapping[str, Any] | str | bytes
) -> dict[str, Any]:
    """The arguments of a call that came through ``kind``, as the function takes them.

    Undoes what the mapping did: reads JSON text, gives renamed parameters their names, drops the
    ``null`` that ``openai-strict`` sends for an absent parameter (a parameter that itself may be
    ``null`` keeps it), turns whole floats into integers where the schema asks for those. Does not
    validate. Raises :class:`InvalidRequest` for text that is not JSON, :class:`InvalidArguments` for
    JSON that is no object.
    """
    _kind(kind)
    return arguments_in(signature, kind, arguments)


def arguments_to(
    signature: FunctionSignature, kind: str, arguments: Mapping[str, Any]
) -> dict[str, Any] | str:
    """The inverse of :func:`arguments_from`: arguments as a model would have sent them."""
    sent = arguments_out(signature, kind, arguments)
    return json.dumps(sent, ensure_ascii=False) if _kind(kind).text_arguments else sent


def errors_to(
    signature: FunctionSignature, kind: str, errors: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The ``errors`` of :class:`~enginehost.errors.InvalidArguments` for the model behind ``kind``.

    They speak of parameters by the names that the model was given.
    """
    _kind(kind)
    return errors_out(signature, kind, errors)


def result_to(signature: FunctionSignature, kind: str, result: Any) -> Any:
    """A result (a JSON value) in the place where ``kind`` carries it.

    ``openai`` and ``anthropic`` text, ``bedrock`` the ``content`` of a ``toolResult``, ``gemini`` the
    ``response``, ``mcp`` the ``structuredContent``, ``genesis`` JSON text, ``json-schema`` the value.
    """
    return _kind(kind).pack(signature, result)


def result_from(signature: FunctionSignature, kind: str, packed: Any) -> Any:
    """The inverse of :func:`result_to`. Raises :class:`InvalidRequest` for what is no such result."""
    return _kind(kind).unpack(signature, packed)


def _kind(kind: str) -> SpecKind:
    found = _KINDS.get(kind)
    if found is None:
        kinds = list(_KINDS)
        raise InvalidRequest(
            f"no kind of spec is called {shortened(kind, _MOST_NAME)!r}; there are {', '.join(kinds)}",
            detail={"kinds": kinds},
            recorded="no kind of spec is called as was asked",
        )
    return found


__all__ = [
    "SPEC_KINDS",
    "SpecMapper",
    "arguments_from",
    "arguments_to",
    "errors_to",
    "register_spec_kind",
    "result_from",
    "result_to",
    "signature_from_spec",
    "spec_kinds",
    "to_spec",
]
