"""Smooth functions of faces with a price on the weights: proximal Newton steps.

A step minimises the quadratic model of the function with the price as it is
(:mod:`polyopt.solvers.priced_model`), and goes as far towards it as the objective falls. Weights that come
to 0 are 0 exactly. Where the function has little curvature, or a negative one, some is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from formulations.clock import interrupted
from formulations.solution import Solution, Status
from polyopt.solvers.clock import Clock
from polyopt.solvers.logistic import positive_factor
from polyopt.solvers.priced_model import Places, gap_of, least_of_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.face_penalty import FacePenalty
    from formulations.matrices import Array

__all__ = ["MOST", "SmoothFaces", "minimise_priced"]

MOST = 3000  # entries of W, whose square is kept
_SUFFICIENT = 1e-4  # share of the decrease that the model promises which a step must bring
_LEAST_STEP = 1e-8
_CLOSER = 0.01  # share of the gap at hand to which a model is solved
_ROUNDING = 1e-15
_REST = 5.0  # times the tolerance: the pulls are what is left of sums of which most cancelled


class SmoothFaces(Protocol):
    """A function of faces W (K, m+1) with a ridge in it."""

    def __call__(self, W: Array) -> tuple[float, Array]:
        """Its value and its slope (K, m+1)."""
        ...

    def hessian(self, W: Array) -> Array:
        """Its second derivatives, for W taken row by row."""
        ...


def minimise_priced(
    smooth: SmoothFaces, penalty: FacePenalty, W: Array, *, ridge: float, max_iter: int = 100,
    tol: float = 1e-8, time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Minimise a smooth function of faces, with a price.

    Parameters
    ----------
    smooth : SmoothFaces
        The function; convex when less its ridge, or the bound means nothing.
    penalty : FacePenalty
        The price.
    W : ndarray of shape (K, m+1)
        Where to begin; weights of a forbidden sign are made 0 first.
    ridge : float
        ρ, positive: that of the function.
    max_iter : int
        Steps at most.
    tol : float
        Relative gap (:func:`polyopt.solvers.priced_model.gap_of`) at which to stop.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    Solution
        ``primal`` has ``W``; ``objective`` has the price in it, and ``bound`` is the objective less the gap.
        A limit, or Ctrl-C, keeps the point. ``history`` has the ``seconds`` and the ``objective`` after each
        step.

    Raises
    ------
    ValueError
        More entries of W than the square of which fits.
    """
    if W.size > MOST:
        raise ValueError(
            f"l1, group and signs take {MOST} weights and biases at most here, not {W.size}: choose fewer "
            "features or faces, or the Convex Polytope Machine"
        )
    clock, W, status = Clock(time_limit), penalty.allowed(W), Status.ITERATION_LIMIT
    places = Places.of(penalty, len(W))
    loss, slope = smooth(W)
    value = loss + penalty.value(W)
    gap, history = gap_of(penalty, W, slope, ridge), list[dict[str, float]]()
    try:
        while True:
            if gap <= tol * abs(value) and _is_at_rest(penalty, W, slope, ridge, tol):
                status = Status.SOLVED
                break
            if clock.is_over:
                status = Status.TIME_LIMIT
                break
            if len(history) >= max_iter:
                break
            active = (W != 0.0) | (penalty.shrunk(ridge * W - slope) != 0.0) | places.smooth.reshape(W.shape)
            H = smooth.hessian(W)
            _lift(H, np.flatnonzero(active))
            enough = _CLOSER * min(gap, max(abs(value) * tol, gap * gap / (abs(value) or 1.0)))
            ended = least_of_model(penalty, places, W, slope, H, ridge, active, enough)
            found = _search(smooth, penalty, (W, value, slope), ended)
            if found is None:
                # Where the gap is closed, rounding alone keeps the faces from what their pulls imply.
                status = Status.SOLVED if gap <= tol * abs(value) else Status.STALLED
                break
            W, value, slope = found
            gap = gap_of(penalty, W, slope, ridge)
            history.append({"seconds": clock.seconds, "objective": value})
    except KeyboardInterrupt:
        status = interrupted()
    return Solution(
        status, {"W": W}, {}, value, value - gap, "proximal newton", len(history),
        solve_time=clock.seconds,
        history=tuple(history),
    )  # fmt: skip


def _is_at_rest(penalty: FacePenalty, W: Array, slope: Array, ridge: float, tol: float) -> bool:
    """Whether the faces are those that their pulls imply, next to the largest pull."""
    pulls = ridge * W - slope
    off = ridge * W - penalty.shrunk(pulls)
    return float(np.abs(off).max()) <= _REST * tol * float(np.abs(pulls).max())


def _lift(H: Array, entries: NDArray[np.int64]) -> None:
    """Add to the diagonal of H, in place, until it is positive definite in some entries."""
    part = H[np.ix_(entries, entries)]
    before = part.diagonal().copy()
    positive_factor(part)
    H[entries, entries] += part.diagonal() - before


def _search(
    smooth: SmoothFaces, penalty: FacePenalty, here: tuple[Array, float, Array], ended: Array
) -> tuple[Array, float, Array] | None:
    """The first of shorter steps towards the model's least that lowers enough, if there is one."""
    W, value, slope = here
    step, price, size = ended - W, penalty.value(W), 1.0
    promised = float((slope * step).sum()) + penalty.value(ended) - price
    if promised >= -_ROUNDING * abs(value):
        return None
    while size >= _LEAST_STEP:
        # The end itself, not W plus the step, has the model's zeros.
        trial = ended if size == 1.0 else W + size * step
        with np.errstate(over="ignore", invalid="ignore"):
            loss, found = smooth(trial)
        total = loss + penalty.value(trial)
        if total <= value + _SUFFICIENT * size * promised and total < value:
            return trial, total, found
        size *= 0.5
    return None
