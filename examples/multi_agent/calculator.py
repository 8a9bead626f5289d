"""A service: functions for whoever is on the bus. It knows no agent, and needs no model."""

from __future__ import annotations

import ast
import asyncio
import operator
from collections.abc import Callable

from enginehost import Service, tool
from enginehost.errors import InvalidRequest

OPERATORS: dict[type, Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}
MOST_CHARACTERS = 200


class CalculatorService(Service):
    """Reckons."""

    tags = ("math",)

    @tool(read_only=True)
    def evaluate(self, expression: str) -> float:
        """Work out an arithmetic expression.

        Args:
            expression: numbers, + - * / and parentheses, such as ``(1 + 2) * 3.5``

        """
        if len(expression) > MOST_CHARACTERS:
            raise InvalidRequest(f"an expression has {MOST_CHARACTERS} characters at most")
        try:
            return value(ast.parse(expression.strip(), mode="eval").body)
        except (SyntaxError, ZeroDivisionError) as error:
            raise InvalidRequest(f"{expression!r} cannot be worked out: {error}") from None

    @tool(read_only=True)
    def mean(self, numbers: list[float]) -> float:
        """The mean of some numbers."""
        if not numbers:
            raise InvalidRequest("there are no numbers")
        return sum(numbers) / len(numbers)


def value(node: ast.AST) -> float:
    """What a part of an expression comes to."""
    match node:
        case ast.Constant(value=bool() | complex()):
            pass
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp(left, kind, right) if type(kind) in OPERATORS:
            return OPERATORS[type(kind)](value(left), value(right))
        case ast.UnaryOp(kind, operand) if type(kind) in OPERATORS:
            return OPERATORS[type(kind)](value(operand))
    raise SyntaxError("numbers, + - * / and parentheses are understood")


if __name__ == "__main__":
    asyncio.run(CalculatorService().run())
