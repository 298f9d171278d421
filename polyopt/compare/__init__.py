"""The exact solution and the fast one of the same program, side by side, both certified."""

from polyopt.compare.comparison import Comparison, Row
from polyopt.compare.run import DEFAULT_DATA, PROVABLE_DATA, compare
from polyopt.methods import DEFAULT_METHODS, METHODS, Method, find_method

__all__ = [
    "DEFAULT_DATA", "DEFAULT_METHODS", "METHODS", "PROVABLE_DATA", "Comparison", "Method", "Row",
    "compare", "find_method",
]  # fmt: skip
