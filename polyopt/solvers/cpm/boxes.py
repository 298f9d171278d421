"""Branch and bound over boxes of the faces' coefficients: one box, in compiled code.

A box is bounded (:mod:`polyopt.solvers.cpm.box_bound`), the faces that its multipliers give are tried as an
incumbent, and the box is cut in two. Its multipliers are kept in parts of the costs, rounded down: whatever
is between 0 and the cost proves something, and the halves begin from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.compiled import njit
from polyopt.operands import put
from polyopt.solvers.cpm.box_bound import Box, bound_box
from polyopt.solvers.cpm.face import Samples, price, settle
from polyopt.solvers.cpm.tree import Best

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

__all__ = ["examine_box", "half"]

_CODES = 255  # parts of a cost
_NOTHING = 1e-6  # of what is missing: a loss that is none
_POINT = 1e-12  # of its ends: an interval that is no longer cut
_MIDDLE = 0.3  # of an interval, at each end, where it is not cut


@njit(cache=True)
def _branch(data: Samples, box: Box) -> tuple[int, int, float]:
    """Face and coefficient whose interval has the largest part in what the envelopes lose, and the part."""
    K, d = box.low.shape
    parts = np.zeros((K, d))
    for p in range(len(box.offset)):
        i = data.inside + p
        above, best, wide = box.offset[p], -np.inf, 0.0
        for k in range(K):
            score = 0.0
            for j in range(d):
                score += data.A[i, j] * box.W[k, j]
            above += box.share[p, k] * score
            best = max(best, score)
            wide += box.share[p, k] * (box.most[p, k] - box.least[p, k])
        lost = data.C[i] * (max(0.0, 1.0 - best) - max(0.0, 1.0 - above))
        constant = 0.0 if wide > 0.0 else 1.0  # where the envelope is one, every face has a part in it
        if wide == 0.0:
            wide = (box.most[p] - box.least[p]).sum()
        if lost > 0.0 and wide > 0.0:
            for k in range(K):
                for j in range(d):
                    width = abs(data.A[i, j]) * (box.high[k, j] - box.low[k, j])
                    parts[k, j] += lost * (box.share[p, k] + constant) * width / wide
    at = int(parts.argmax())
    return at // d, at % d, parts[at // d, at % d]


@njit(cache=True)
def examine_box(
    data: Samples, best: Best, box: Box, low: Vector, high: Vector, codes: NDArray[np.uint8], tol: float
) -> tuple[float, int, int, float, NDArray[np.uint8]]:
    """Bound a box, try its faces as an incumbent, and say where to cut it.

    Parameters
    ----------
    data, best, box
        The samples, the incumbent, and room.
    low, high : ndarray of shape (K, d)
        The box.
    codes : ndarray of shape (n, K)
        Multipliers to begin from, in parts of the costs.
    tol : float
        Relative distance to the incumbent within which nothing more is sought.

    Returns
    -------
    bound : float
        What no faces in the box cost less than.
    k, j : int
        Face and coefficient to branch on; k is -1 where that would bring nothing.
    at : float
        Where.
    codes : ndarray of shape (n, K)
        The multipliers found.
    """
    n, K = codes.shape
    _copy(low, box.low)
    _copy(high, box.high)
    for i in range(n):
        for k in range(K):
            box.up[i, k] = data.C[i] * (codes[i, k] / _CODES)
    bound, goal, k, j, lost = -np.inf, np.inf, -1, 0, 0.0
    for fine in (False, True):
        bound = max(bound, bound_box(data, box, best.limits[0] * (1.0 - tol), fine))
        _try_faces(data, best, box, tol)
        goal = best.limits[0] * (1.0 - tol)
        k, j, lost = _branch(data, box)
        if bound >= goal or lost > _NOTHING * (goal - bound):
            break
    if bound < goal and lost <= _NOTHING * (goal - bound):  # the multipliers do not come further
        at_most = int((high - low).argmax())
        k, j = at_most // low.shape[1], at_most % low.shape[1]
        if high[k, j] - low[k, j] <= _POINT * (abs(high[k, j]) + abs(low[k, j])):
            k = -1
    found = np.zeros((n, K), np.uint8)
    for i in range(n):
        for face in range(K):
            if data.C[i] > 0.0:
                found[i, face] = np.uint8(_CODES * (box.up[i, face] / data.C[i]))
    width = high[k, j] - low[k, j]
    at = min(max(box.W[k, j], low[k, j] + _MIDDLE * width), high[k, j] - _MIDDLE * width)
    return bound, k, j, at, found


@njit(cache=True)
def _copy(values: Vector, out: Vector) -> None:
    """``out[:, :] = values``, row by row as :func:`~polyopt.operands.put` does it, which compiles faster."""
    for k in range(len(values)):
        put(values[k], out[k])


@njit(cache=True)
def _try_faces(data: Samples, best: Best, box: Box, tol: float) -> None:
    """Keep the faces of a box if they are the best so far, and what alternating makes of them."""
    found = np.zeros(len(box.offset), np.int64)
    J = price(data, box.W, found)
    if best.limits[0] > J:
        best.limits[0] = J
        _copy(box.W, best.W)
        W = box.W.copy()
        J = settle(data, found, W, 1e-3 * tol * J)
        if best.limits[0] > J:
            best.limits[0] = J
            _copy(W, best.W)


@njit(cache=True)
def half(low: Vector, high: Vector, k: int, j: int, at: float, upper: bool) -> tuple[Vector, Vector, bool]:
    """A half of a box, less what the order of the faces leaves out; and whether it is empty.

    Parameters
    ----------
    low, high : ndarray of shape (K, d)
        The box.
    k, j : int
        Face and coefficient.
    at : float
        Where it is cut.
    upper : bool
        Which half.
    """
    low, high = low.copy(), high.copy()
    if upper:
        low[k, j] = at
    else:
        high[k, j] = at
    K = len(low)
    for face in range(1, K):
        low[face, 0] = max(low[face, 0], low[face - 1, 0])
        high[K - 1 - face, 0] = min(high[K - 1 - face, 0], high[K - face, 0])
    return low, high, bool((low > high).any())
