"""Negatives between positives: which they are, and between which positives their program may have them.

A negative in the convex hull of the positives costs any faces something, of itself or of positives around it
(:mod:`polyopt.solvers.polyceptron_node`). Around it there are many choices. Those next to it, at the border
of the classes, are what all others ask for too, while those deep inside pay nothing else; so where not all
can be in the program, some are near and the others are drawn from all of which something is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from formulations.solution import Status
from polyopt.solvers.persistent_lp import PersistentLP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from polyopt.solvers.polyceptron_node import Part

    Places = NDArray[np.int64]

__all__ = ["Enclosed", "pairs_between"]

_NOTHING = 1e-6  # of the largest cost left: one that is used up
_NEAR, _FAR = 5, 15  # times d: positives near a negative, and others, where it does not have all


class Enclosed:
    """Which negatives are between positives, one after the other, by a linear program kept in HiGHS.

    Parameters
    ----------
    part : Part
        The samples.
    """

    def __init__(self, part: Part):
        self._p, self._q = len(part.inside), len(part.outside)
        A = sp.csc_array(np.vstack([part.inside, -part.outside]).T * part.units[:, None])
        self._model = PersistentLP(np.zeros(self._p + self._q), A, 0.0, 0.0, 0.0, np.inf)

    def support(self, j: int) -> Places | None:
        """Positives that negative j is between, as far as HiGHS can tell; None where there are none.

        Parameters
        ----------
        j : int
            The negative.
        """
        fixed = (np.arange(self._q) == j).astype(float)
        lower = np.concatenate([np.zeros(self._p), fixed])
        found = self._model.solve(lower, np.concatenate([np.full(self._p, np.inf), fixed]))
        if found.status is not Status.SOLVED:
            return None
        return np.flatnonzero(found.x[: self._p] > 0.0)


def pairs_between(
    part: Part, held: Mapping[int, Places], has_all: bool, rng: np.random.Generator
) -> tuple[Places, Places]:
    """Which negatives may be between which positives: the pairs of a :class:`NodeProgram`.

    Parameters
    ----------
    part : Part
        The samples; positives of which nothing is left are in no pair but those of `held`.
    held : mapping of int to ndarray of int
        The negatives that are enclosed, and positives around each.
    has_all : bool
        Whether each may have all positives.
    rng : Generator
        Draws the positives that are not near.
    """
    places, others = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    inside, d = part.inside * part.units, len(part.units)
    rest = np.flatnonzero(part.b > _NOTHING * part.b.max(initial=0.0))
    has_all = has_all or len(rest) <= (_NEAR + _FAR) * d
    for j in sorted(held):
        among = rest
        if not has_all:
            apart = ((inside[rest] - part.outside[j] * part.units) ** 2).sum(axis=1)
            near = rest[np.argpartition(apart, _NEAR * d)[: _NEAR * d]]
            among = np.union1d(near, rng.choice(rest, _FAR * d, replace=False))
        among = np.union1d(among, held[j])
        places.append(np.full(len(among), j))
        others.append(among)
    return np.concatenate(places), np.concatenate(others)
