"""Where the rounds of a Convex Polytope Machine on blocks begin: the faces of a sample in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from polyopt.large.faces import Drawn, Sizes
from polyopt.outer.cpm.solve import Settings, solve_cpm
from polyopt.solvers.interior_point.crew import total

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.solvers.clock import Clock
    from polyopt.solvers.interior_point.crew import Crew

    Vector = NDArray[np.float64]

__all__ = ["Start", "begin", "sizes_of"]

_SHARE = 0.2  # of the time, for a start
_EPOCHS = 100
_TOLERANCE = 1e-3


class Start(NamedTuple):
    """How a start is made: faces, samples of the pilot at most, and the seed of all that is random."""

    n_faces: int
    pilot: int
    seed: int


def sizes_of(crew: Crew) -> Sizes:
    """The sizes of all blocks together.

    Parameters
    ----------
    crew : Crew
        Blocks of :class:`~polyopt.large.faces.FacesBlock`.
    """
    found: list[Sizes] = crew.ask("facts")
    return Sizes(
        sum(each.inside for each in found),
        sum(each.outside for each in found),
        float(total([each.costs for each in found])),
        total([each.features for each in found]),
    )


def begin(crew: Crew, sizes: Sizes, start: Start, clock: Clock) -> Vector:
    """Faces (K, m+1), the bias last, whose assignment is worth solving for.

    Steps on all blocks, which would go on from those of the pilot, have their place at its end.

    Parameters
    ----------
    crew : Crew
        Blocks of :class:`~polyopt.large.faces.FacesBlock`.
    sizes : Sizes
        Their sizes together.
    start : Start
        How it is made.
    clock : Clock
        The limit.
    """
    if start.n_faces == 1:  # which has one assignment
        return np.zeros((1, len(sizes.features) + 1))
    return _pilot(crew, sizes, start, clock)


def _pilot(crew: Crew, sizes: Sizes, start: Start, clock: Clock) -> Vector:
    """The faces of some samples of each class, by the stochastic solver of those in memory."""
    half = start.pilot / 2
    rates = (min(half / sizes.inside, 1.0), min(half / sizes.outside, 1.0))
    drawn: list[Drawn] = crew.ask("draw", start.seed, *rates)
    up, costs = np.concatenate([d.up for d in drawn]), np.concatenate([d.costs for d in drawn])
    if up.all() or not up.any():
        return np.zeros((start.n_faces, len(sizes.features) + 1))
    parts = [d.X for d in drawn]
    X = sp.csr_array(sp.vstack(parts)) if sp.issparse(parts[0]) else np.concatenate(parts)
    left = clock.left
    settings = Settings(
        start.n_faces,
        "sgd",
        tol=_TOLERANCE,
        max_iter=_EPOCHS,
        time_limit=None if left is None else _SHARE * left,
    )
    found = solve_cpm(X, np.where(up, 1.0, -1.0), costs, settings, start.seed)
    return np.asarray(found["W"], dtype=float)
