"""How the scores of all faces of a machine become its one score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from formulations.matrices import Array

__all__ = ["Form"]


@dataclass(frozen=True)
class Form:
    """Groups of faces; of each its highest output counts, and the groups' highest make the score.

    Attributes
    ----------
    flip : float
        What the outputs are multiplied with first, +1 or -1: with -1 the lowest one counts.
    starts : tuple of int
        The first face of each group; the faces of a group stand side by side.
    signs : tuple of float
        Of the groups: the score is the sum of the signs times the groups' highest.
    is_least : bool
        Whether it is the least of the groups' highest instead, times the first sign.
    """

    flip: float
    starts: tuple[int, ...]
    signs: tuple[float, ...]
    is_least: bool = False

    @classmethod
    def of_polytope(cls, outward: float, side: float) -> Self:
        """Of the faces of one polytope.

        Parameters
        ----------
        outward : float
            +1 where the faces are positive outside, -1 where they are inside.
        side : float
            What the face's output that counts is multiplied with.
        """
        return cls(outward, (0,), (side * outward,))

    def score(self, outputs: Array) -> Array:
        """Scores (n,) of samples from the outputs (n, K) of all faces."""
        if not self.starts:
            return np.zeros(len(outputs))
        best = np.maximum.reduceat(self.flip * outputs, self.starts, axis=1)
        if self.is_least:
            return self.signs[0] * best.min(axis=1)
        return best @ np.array(self.signs)
