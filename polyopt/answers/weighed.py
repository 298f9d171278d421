"""What is done with each column of a table: the weights of its numbers, of its gaps, or of its texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from formulations.matrices import Array
    from polyopt.answers.form import Form

    Integers = NDArray[np.int64]

__all__ = ["Bend", "Curve", "Weighed"]


class Bend(NamedTuple):
    """What a column adds beyond a multiple of itself: ``changes max(0, u - knot)``, added over the knots.

    Attributes
    ----------
    knots : ndarray of shape (q,)
        Where it bends; u is the number less its column's centre.
    changes : ndarray of shape (q, K)
        By how much the weights of the column change there.
    """

    knots: NDArray[np.float64]
    changes: NDArray[np.float64]

    def at(self, u: float) -> NDArray[np.float64]:
        """What it adds (K,) at one place."""
        return np.asarray(np.maximum(u - self.knots, 0.0) @ self.changes)


class Curve(NamedTuple):
    """A function of straight pieces that stands in place of a number, constant beyond its ends.

    Attributes
    ----------
    knots : ndarray of shape (q,)
        The ends of the pieces, ascending; of the number less its column's centre.
    levels : ndarray of shape (q,)
        The function there.
    """

    knots: NDArray[np.float64]
    levels: NDArray[np.float64]

    def at(self, u: float) -> float:
        """The function at one place."""
        return float(np.interp(u, self.knots, self.levels))


@dataclass(frozen=True, eq=False)
class Weighed:
    """Faces as weights of a table's columns, and how their outputs become one score.

    The output of face k is ``b[k]`` and, added over the columns, ``weights u`` and what a bend adds for a
    number, where u is ``x - centre`` or a curve of that; what a gap counts for a missing number; and what the
    level counts for a text.

    Attributes
    ----------
    places : ndarray of int64, shape (c,)
        The columns that are read. One without weights is only checked.
    centres : ndarray of shape (c,)
        What is taken from a number before it is multiplied, so that nothing is lost where all are far from 0.
    weights : ndarray of shape (c, K)
        Of the numbers.
    gaps : mapping of int to ndarray of shape (K,)
        What a missing number counts, by place in `places`; in others a missing one is refused.
    tables : mapping of int to ndarray of shape (levels, K)
        What the levels of a text count, by place in `places`.
    b : ndarray of shape (K,)
        Offsets.
    form : Form
        How the outputs become one.
    bends : mapping of int to Bend
        What numbers add beyond that, by place in `places`.
    curves : mapping of int to Curve
        What stands in place of numbers, by place in `places`.
    """

    places: Integers
    centres: Array
    weights: Array
    gaps: Mapping[int, Array]
    tables: Mapping[int, Array]
    b: Array
    form: Form
    bends: Mapping[int, Bend] = field(default_factory=dict)
    curves: Mapping[int, Curve] = field(default_factory=dict)

    @property
    def n_terms(self) -> int:
        """Products for each row."""
        bends = sum(len(own.knots) + int(np.count_nonzero(own.changes)) for own in self.bends.values())
        curves = sum(len(own.knots) for own in self.curves.values())
        texts = len(self.tables) * len(self.b)
        return int(np.count_nonzero(self.weights)) + len(self.places) + texts + bends + curves

    def at_centre(self, p: int) -> Array:
        """What the numbers of the column at a place in `places` add (K,) where they are its centre."""
        u = self.curves[p].at(0.0) if p in self.curves else 0.0
        straight = u * self.weights[p]
        return straight + self.bends[p].at(u) if p in self.bends else straight
