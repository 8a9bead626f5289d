"""``enginehost.describe``: the whole description of a function, also where its capability has no room for it.

It is advertised nowhere. Its id is made as those of functions are, so that whoever sees a capability
knows it too: of the capability's provider and service, and this name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from enginehost.errors import InvalidArguments, UnknownFunction
from enginehost.signature import FunctionSignature
from enginehost.specs import to_spec
from enginehost.values import encode

DESCRIBE = "enginehost.describe"
"""The name of the function; it has one parameter, ``function_id``."""

Find = Callable[[str], FunctionSignature | None]
"""The function that has an id, as far as the caller may view it."""


def described(arguments: Mapping[str, Any], find: Find) -> bytes:
    """What ``enginehost.describe`` answers. Raises what a call of an unknown function does."""
    function_id = arguments.get("function_id")
    if not isinstance(function_id, str) or len(arguments) != 1:
        message = "it takes the function_id of a capability, and nothing else"
        raise InvalidArguments(message, errors=[{"pointer": "/function_id", "message": message}])
    signature = find(function_id)
    if signature is None:
        raise UnknownFunction(function_id)
    return encode(told(signature))


def told(signature: FunctionSignature) -> dict[str, Any]:
    """A whole signature as JSON, its ``parameters`` as a capability shows them."""
    spec = to_spec(signature, "genesis")
    hints = asdict(signature.annotations)
    return {
        "name": signature.name,
        "description": signature.description,
        "parameters": spec["parameter_schema"],
        "result": signature.result,
        "annotations": {hint: value for hint, value in hints.items() if value is not None},
        "streaming": signature.streaming,
        "tags": list(signature.tags),
    }
