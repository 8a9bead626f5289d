"""Functions for numbers. A parameter of the function is a parameter of the engine."""


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b
