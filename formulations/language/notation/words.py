"""Sentences with formulas in them, each between two ``$``: ``"unused price of slack: $Cᵢ − αᵢ$"``."""

from __future__ import annotations

from collections.abc import Collection

from formulations.language.notation.parser import read_formula
from formulations.language.notation.printing import latex_of_claims, latex_of_expression
from formulations.language.notation.tree import Claim, Expression

__all__ = ["formulas_in", "plain", "words_latex"]


def plain(words: str) -> str:
    """The sentence as plain text."""
    return words.replace("$", "")


def formulas_in(words: str, functions: Collection[str] = ()) -> list[Expression | tuple[Claim, ...]]:
    """The trees of the formulas in a sentence.

    Parameters
    ----------
    words : str
        The sentence.
    functions : collection of str
        Letters that are functions where a bracket follows.
    """
    return [read_formula(part, functions) for part in _split(words)[1::2]]


def words_latex(words: str, functions: Collection[str] = ()) -> str:
    """The sentence as LaTeX; arguments as in :func:`formulas_in`."""
    parts = []
    for i, part in enumerate(_split(words)):
        if i % 2:
            tree = read_formula(part, functions)
            parts.append(latex_of_claims(tree) if isinstance(tree, tuple) else latex_of_expression(tree))
        elif part:
            parts.append(rf"\text{{{part.replace('−', '-')}}}")
    return " ".join(parts)


def _split(words: str) -> list[str]:
    parts = words.split("$")
    if len(parts) % 2 == 0:
        raise ValueError(f"a formula has no end: {words!r}")
    return parts
