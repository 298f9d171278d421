"""L-BFGS on the objective with soft maxima, for dense samples and no price: one compiled loop.

A search makes hundreds of short descents on a few hundred samples, which cost a general solver more outside
of the objective than in it. This is the method of Liu & Nocedal (1989), "On the limited memory BFGS method
for large scale optimization": the last ten pairs of steps and slopes, and steps that lower enough and leave
less of a slope (Wolfe's conditions; what is between is halved or met by a parabola). Scores are kept face by
face, so that exponentials of many samples are taken at once.

The loop is in ``native/logistic.c``, exponential and logarithm in ``native/elementary.h``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from polyopt.native.library import kernel
from polyopt.polyhedral.logistic_solver.smooth import FaceLoss

Array = NDArray[np.float64]


_MEMORY = 10  # pairs of steps and slopes that are kept
_TILE = 256  # samples at once, as in native/tiles.h
_PRODUCTS_PER_LOOK = 1e8  # products after which the clock is asked

_SAMPLES = (
    "columns: f8 (m, n); y: f8 (n); c: f8 (n); entries: f8 (K, e); ridges: f8 (e); scale: f8 (e); "
    "middle: f8 (m); faces!: f8 (K, e); pulls!: f8 (K, e); scores!: f8 (K, t); first: i8; softness: f8"
)  # fmt: skip

# At most as many iterations as `values` is long, from v, with their objectives in it; returns their number.
# value (1,) is the objective at v and g its slope, NaN at first; counts (3,) are pairs kept, the place of the
# next one, and 1 once the descent is over.
_descend = kernel(
    "descend_faces",
    "v!: f8 (v); g!: f8 (v); value!: f8 (o); counts!: i8 (h); steps!: f8 (p, v); bends!: f8 (p, v); "
    f"products!: f8 (p); shares!: f8 (p); room!: f8 (h, v); values!: f8 (b); {_SAMPLES}; tol: f8",
    returns="i8",
)  # fmt: skip

# The objective at faces v of scaled features, and its slope g.
_objective = kernel("faces_objective", f"v: f8 (v); g!: f8 (v); {_SAMPLES}", returns="f8")


def quasi_newton(
    problem: FaceLoss, W: Array, clock: Clock, softness: float, max_iter: int, tol: float,
    progress: Callable[[float], None] | None = None,
) -> tuple[Array, int]:  # fmt: skip
    """Lower the smoothed objective of dense samples, without a price and without signs.

    problem: the samples and prices.
    W (K, m+1): faces to begin from, 0 where they may not differ from it.
    clock: when to stop; the best point so far is kept then.
    softness: t of the maxima, positive.
    max_iter: iterations at most.
    tol: relative decrease of a step at which to stop.
    progress: called with the smoothed objective after each step.
    Returns W: faces.
    Returns iterations: steps made.
    """
    units, size = problem.units, W.size
    samples = _samples(problem)
    counts = np.zeros(3, dtype=np.int64)  # pairs kept, place of the next one, 1 once the descent is over
    v, pairs = units.inward(W).ravel(), np.empty((2, _MEMORY, size))
    state = (
        v, np.empty(size), np.full(1, np.nan), counts, *pairs, np.empty(_MEMORY), np.empty(_MEMORY),
        np.empty((3, size)),
    )  # fmt: skip
    most = max(1, int(_PRODUCTS_PER_LOOK / (len(problem.y) * size + 1)))
    made, values = 0, np.empty(min(most, max_iter))
    try:
        while made < max_iter:
            steps = _descend(*state, values[: max_iter - made], *samples, problem.owners.first, softness, tol)
            made += steps
            if progress is not None:
                for value in values[:steps].tolist():
                    progress(value)
            if counts[2] or clock.is_over:
                break
    except KeyboardInterrupt:
        clock.stop()
    return units.outward(v.reshape(W.shape)), made


def _samples(problem: FaceLoss) -> tuple[Array, ...]:
    """The samples and prices as the kernels take them, and room to work in."""
    X, y, c, entries = (
        np.ascontiguousarray(each, dtype=float)
        for each in (problem.X.T, problem.y, problem.c, problem.entries)
    )
    room = np.empty(problem.shape), np.empty(problem.shape), np.empty((problem.shape[0], _TILE))
    return X, y, c, entries, problem.ridges, *problem.units, *room
