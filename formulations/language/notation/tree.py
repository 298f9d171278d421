r"""The nodes of a formula's syntax tree.

The tree does not depend on how the formula was written: ``w·x`` and ``w^\top x`` are the same product. Trees
are compared with ``==``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass


@dataclass(frozen=True)
class Index:
    """An index of a letter, such as the ``k−1`` of z_{j,k−1}."""

    letter: str  # i, j, k or l
    offset: int = 0  # the number added to it


@dataclass(frozen=True)
class Number:
    """A number, as it is written."""

    digits: str


@dataclass(frozen=True)
class Letter:
    """A letter with its marks (``λ*``, ``x̃``, ``Σ_λ``) and its indices.

    A name that ends in ``₍₎`` prints its indices in brackets: ``ξ₍ᵢₖ₎``.
    """

    name: str
    indices: tuple[Index, ...] = ()


@dataclass(frozen=True)
class Sum:
    """Terms, each with its sign: +1 or −1. A single negative term is a negation."""

    terms: tuple[tuple[int, Expression], ...]


@dataclass(frozen=True)
class Product:
    """Factors side by side; of vectors and matrices, their product in this order."""

    factors: tuple[Expression, ...]


@dataclass(frozen=True)
class Hadamard:
    """The product entry by entry, ``a∘b``."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Quotient:
    """``a/b``."""

    above: Expression
    below: Expression


@dataclass(frozen=True)
class Power:
    """A power ``a²``; also the inverse ``M⁻¹`` or the square root ``M^½`` of a matrix."""

    base: Expression
    exponent: Expression


@dataclass(frozen=True)
class Transpose:
    """``a'``."""

    inner: Expression


@dataclass(frozen=True)
class Norm:
    """``‖a‖``: the Euclidean norm of a vector, the Frobenius norm of a matrix."""

    inner: Expression


@dataclass(frozen=True)
class Call:
    """A function with its arguments, ``ln(a)``."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Summation:
    """``Σᵢₖ body``; with a condition, over the entries where it holds."""

    indices: tuple[str, ...]
    condition: Relation | None
    body: Expression


@dataclass(frozen=True)
class Stack:
    """``(a, b)``: numbers and column vectors, stacked into one column."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Matrix:
    """The block matrix ``[a, b; c, d]``."""

    rows: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True)
class Relation:
    """``left sign right``, where the sign is one of = ≤ ≥ < > ⪰."""

    left: Expression
    sign: str
    right: Expression


@dataclass(frozen=True)
class Definition:
    """``head = body``, or ``name(parameter) = body`` of a function."""

    head: Letter
    parameter: str  # empty if the head is not a function
    body: Expression


@dataclass(frozen=True)
class Claim:
    """A relation and the conditions under which it is stated, ``… for yᵢ < 0, k > 0``."""

    relation: Relation
    conditions: tuple[Relation, ...] = ()


Expression = (
    Number | Letter | Sum | Product | Hadamard | Quotient | Power | Transpose | Norm | Call | Summation
    | Stack | Matrix
)  # fmt: skip


def nodes(tree: object) -> Iterator[object]:
    """Return every node of a tree, the root first."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from nodes(part)
    elif is_dataclass(tree):
        yield tree
        for field in fields(tree):
            yield from nodes(getattr(tree, field.name))
