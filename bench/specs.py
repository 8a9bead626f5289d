"""The signatures of 10,000 functions in the forms of vendors, and a check of arguments.

Usage::

    python bench/specs.py [RUNS=5] [COUNT=10000]
"""

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from enginehost.signature import FunctionSignature
from enginehost.specs import SPEC_KINDS, to_spec
from enginehost.validation import Validator, closed
from measuring import RUNS, SERVER_CORE, Spread, in_turn, introduce, pin, table
from peers import figure, interpreter

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Whose order it is", "minLength": 1},
        "email": {"type": "string"},
        "count": {"type": "integer", "minimum": 1},
        "price": {"type": "number"},
        "express": {"type": "boolean", "default": False},
        "size": {"enum": ["small", "medium", "large"]},
        "labels": {"type": "array", "items": {"type": "string"}},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            "required": ["city"],
        },
    },
    "required": ["name", "count", "address"],
}
ARGUMENTS: dict[str, Any] = {
    "name": "Ada",
    "email": "ada@example.org",
    "count": 3,
    "price": 1.5,
    "express": True,
    "size": "large",
    "labels": ["a", "b"],
    "address": {"street": "High Street", "city": "London"},
}


def show_all(signatures: list[FunctionSignature], kind: str) -> Callable[[], float]:
    """Microseconds for the spec of one function."""

    def measure() -> float:
        begin = perf_counter()
        for signature in signatures:
            to_spec(signature, kind, name=signature.name)
        return (perf_counter() - begin) / len(signatures) * 1e6

    return measure


def check_all(check: Callable[[dict[str, Any]], Any], count: int) -> Callable[[], float]:
    """Microseconds for one check of the arguments."""

    def measure() -> float:
        begin = perf_counter()
        for _ in range(count):
            check(ARGUMENTS)
        return (perf_counter() - begin) / count * 1e6

    return measure


def compile_all(count: int) -> Callable[[], float]:
    """Microseconds for making the validator of one function, as its first call does."""

    def measure() -> float:
        begin = perf_counter()
        for _ in range(count):
            Validator(closed(PARAMETERS))
        return (perf_counter() - begin) / count * 1e6

    return measure


def checks(count: int) -> dict[str, Callable[[], float]]:
    """The rows about validation: ours, and what others check with."""
    from jsonschema import Draft202012Validator
    from pydantic import TypeAdapter
    from typing_extensions import TypedDict

    class Address(TypedDict):
        street: str
        city: str

    class Order(TypedDict):
        name: str
        email: str
        count: int
        price: float
        express: bool
        size: str
        labels: list[str]
        address: Address

    return {
        "enginehost, verdict on 8 arguments": check_all(Validator(closed(PARAMETERS)).is_valid, count),
        "enginehost, making a validator": compile_all(count // 100),
        "pydantic, the same 8": check_all(TypeAdapter(Order).validate_python, count),
        "jsonschema, the same schema": check_all(Draft202012Validator(PARAMETERS).is_valid, count // 100),
    }


def show(title: str, found: dict[str, Spread]) -> None:
    table(title, ["", "median", "lowest", "highest"], [[name, *row.cells(2)] for name, row in found.items()])


def main(runs: int = RUNS, count: int = 10_000) -> None:
    pin(SERVER_CORE)
    introduce(f"Specs of {count} functions with 8 parameters each, and their validation")
    signatures = [FunctionSignature(f"f{number}", "Places an order.", PARAMETERS) for number in range(count)]
    found = in_turn({kind: show_all(signatures, kind) for kind in SPEC_KINDS}, runs)
    if peer := interpreter("fastmcp"):
        found["FastMCP, MCP form of add(a, b)"] = Spread([figure(peer, "list") for _ in range(runs)])
    show("to_spec, µs for one function", found)
    show("validation, µs", in_turn(checks(count), runs))


if __name__ == "__main__":
    main(*(int(given) for given in sys.argv[1:]))
