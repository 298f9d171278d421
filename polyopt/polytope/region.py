"""Regions bounded by half-spaces: insides and outsides of polytopes, unions and differences.

A row is a half-space {z : w·z + b ≤ 0}. A :class:`Region` is a union of cases. A :class:`Case` is the set of
the points that satisfy all of its rows, which are a polytope, and at least one row of each of its choices:

- inside of a union of polytopes: a case for each polytope, without choices;
- outside of that union: one case without rows, and for each polytope the choice among its reversed rows;
- f₁ ≥ f₂, for maxima of affine functions (faces): a case for each face of f₁, which is above all faces of f₂.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from formulations.language.arguments import real_array
from formulations.language.types import Array


@dataclass(frozen=True)
class Rows:
    """Rows W z + b ≤ 0, W (r, m) and b (r,), and the numbers by which an answer names each of them."""

    W: Array
    b: Array
    names: tuple[tuple[int, ...], ...]  # (polytope, face), or the faces of f₁ and f₂

    @classmethod
    def of(cls, W: ArrayLike, b: ArrayLike, piece: int = 0, sign: float = 1.0) -> Self:
        """Return the rows of polytope number `piece`, named (piece, face); with `sign` -1 reversed."""
        normals, offsets = real_array("W", W), real_array("b", b)
        names = tuple((piece, k) for k in range(len(offsets)))
        return cls(sign * normals, sign * offsets, names)

    def row(self, k: int) -> "Rows":
        """Return row k."""
        return Rows(self.W[k : k + 1], self.b[k : k + 1], self.names[k : k + 1])

    @staticmethod
    def together(parts: "Sequence[Rows]", m: int) -> "Rows":
        """Return the rows of all the parts, over m features."""
        W = np.vstack([np.zeros((0, m)), *(part.W for part in parts)])
        b = np.concatenate([np.zeros(0), *(part.b for part in parts)])
        return Rows(W, b, tuple(name for part in parts for name in part.names))


@dataclass(frozen=True)
class Case:
    """The points that satisfy all rows, and at least one row of each choice."""

    rows: Rows
    choices: tuple[Rows, ...] = ()


@dataclass(frozen=True)
class Region:
    """The union of some cases."""

    cases: tuple[Case, ...]

    @classmethod
    def inside(cls, pieces: Sequence[tuple[ArrayLike, ArrayLike]]) -> Self:
        """Return the union of polytopes {z : W z + b ≤ 0}, given as pairs (W, b)."""
        return cls(tuple(Case(Rows.of(W, b, piece)) for piece, (W, b) in enumerate(pieces)))

    @classmethod
    def outside(cls, pieces: Sequence[tuple[ArrayLike, ArrayLike]]) -> Self:
        """Return the points beyond, or on, some face of each of the polytopes."""
        choices = tuple(Rows.of(W, b, piece, -1.0) for piece, (W, b) in enumerate(pieces))
        m = choices[0].W.shape[1] if choices else 0
        return cls((Case(Rows.together((), m), choices),))

    @classmethod
    def above(cls, first: tuple[ArrayLike, ArrayLike], second: tuple[ArrayLike, ArrayLike]) -> Self:
        """Return the points where max_k (W_k·z + b_k) of the first is at least the second's, named (k, l)."""
        (W1, b1), (W2, b2) = ((real_array("W", W), real_array("b", b)) for W, b in (first, second))
        cases = []
        for k in range(len(b1)):
            names = tuple((k, other) for other in range(len(b2)))
            cases.append(Case(Rows(W2 - W1[k], b2 - b1[k], names)))
        return cls(tuple(cases))
