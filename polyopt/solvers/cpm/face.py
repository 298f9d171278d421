"""One face of the Convex Polytope Machine on small dense data: its dual, a coordinate at a time.

The samples stand as rows y_i x̃_i, those inside (y = -1) first. For a face that answers for the
positives in P the dual is

    max  D(a) = Σ a_i − ‖w‖²,   w = ½ Σ a_i y_i x̃_i,   0 ≤ a_i ≤ C_i, and a_i = 0 for positives not in P,

and whatever a satisfies its box bounds the optimum of the face from below.

The kernels are written in loops throughout: slices and array expressions take far longer to compile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.certificates.rounding import UNIT
from polyopt.compiled import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.clock import Clock
    from formulations.matrices import Vector

__all__ = [
    "UNIT",
    "Best",
    "Moves",
    "Samples",
    "caps_of",
    "climb",
    "climb_in_time",
    "dual_error",
    "dual_value",
    "follow",
    "hyperplane",
    "price",
    "settle",
    "settle_in_time",
    "slope_blur",
]

_ROUNDS = 100  # of alternating at most
_SWEEPS = 1000  # per face and round of alternating
_PIECE = 2**25  # numbers that are read between two looks at the clock: some hundredths of a second


class Samples(NamedTuple):
    """Rows y_i x̃_i (n, d), their squared lengths and costs (n,), and how many of them are negatives."""

    A: Vector
    q: Vector
    C: Vector
    inside: int


class Best(NamedTuple):
    """The incumbent W (K, d), and limits.

    These are the least cost known, the least bound of what was cut, and by how much any bound that was
    computed may be above the true one, by the rounding of its evaluation.
    """

    W: Vector
    limits: Vector


class Moves(NamedTuple):
    """Trial moves of positive p to face k, from the present multipliers.

    gain (npos, K), delta (npos, K, n) and pull (npos, K, d), which is e_ik, of the move by itself;
    taken (npos, K, n) and shared (npos, K, d) of the moves that keep within the boxes together; up and
    down (K, n), what the latter leave of the boxes; added (npos,), what each adds to the bound. Length and
    blur (npos, K): how long each shared vector is, and how far from the true one at most; error (npos,): how
    far what each adds may be from the truth.
    """

    gain: Vector
    delta: Vector
    pull: Vector
    taken: Vector
    shared: Vector
    up: Vector
    down: Vector
    added: Vector
    length: Vector
    blur: Vector
    error: Vector


@njit(cache=True)
def climb(
    data: Samples, low: Vector, high: Vector, a: Vector, w: Vector, sweeps: int, enough: float, least: float
) -> float:
    """Raise D over the box [low, high] by sweeps, in place; return by how much.

    The sweeps end once they have gained `enough`, or one of them no more than `least`.
    """
    return _climb(data, low, high, a, w, sweeps, enough, least)[0]


@njit(cache=True)
def _climb(
    data: Samples, low: Vector, high: Vector, a: Vector, w: Vector, sweeps: int, enough: float, least: float
) -> tuple[float, int, float]:
    """What :func:`climb` gained, in how many sweeps, and in the last of them."""
    A, q = data.A, data.q
    n, d = A.shape
    total, gained, made = 0.0, 0.0, 0
    for _ in range(sweeps):
        made += 1
        gained = 0.0
        for i in range(n):
            if high[i] <= low[i]:
                continue
            slope = 1.0
            for j in range(d):
                slope -= A[i, j] * w[j]
            new = min(max(a[i] + 2.0 * slope / q[i], low[i]), high[i])
            step = new - a[i]
            if step != 0.0:
                a[i] = new  # and not a[i] + step, which may be beyond the box by a rounding
                gained += step * slope - 0.25 * q[i] * step * step
                for j in range(d):
                    w[j] += 0.5 * step * A[i, j]
        total += gained
        if total >= enough or gained <= least:
            break
    return total, made, gained


def climb_in_time(
    data: Samples, high: Vector, a: Vector, w: Vector, sweeps: int, least: float, clock: Clock
) -> None:
    """:func:`climb` over the box [0, high], until the clock is over; it is looked at after every piece."""
    low, piece = np.zeros_like(a), max(_PIECE // data.A.size, 1)
    while sweeps > 0:
        _, made, gained = _climb(data, low, high, a, w, min(sweeps, piece), np.inf, least)
        sweeps -= made
        if gained <= least or clock.is_over:
            return


@njit(cache=True)
def hyperplane(data: Samples, a: Vector, w: Vector) -> None:
    """Set w to ½ Σ a_i y_i x̃_i."""
    n, d = data.A.shape
    for j in range(d):
        w[j] = 0.0
    for i in range(n):
        if a[i] != 0.0:
            for j in range(d):
                w[j] += 0.5 * a[i] * data.A[i, j]


@njit(cache=True)
def dual_value(a: Vector, w: Vector) -> float:
    """D(a) for the w that belongs to a."""
    value = 0.0
    for entry in a:
        value += entry
    for entry in w:
        value -= entry * entry
    return value


@njit(cache=True)
def dual_error(data: Samples, a: Vector, w: Vector) -> float:
    """How far :func:`dual_value` may be above D(a), for the w that :func:`hyperplane` gives.

    The sum of n multipliers is off by γ_n of itself. With η a bound on the distance of w from
    ½ Σ a_i y_i x̃_i, its squared length is off by 2 η ‖w‖ + η² and the rounding of the sum of squares.
    """
    n, d = data.A.shape
    total, square = 0.0, 0.0
    for i in range(n):
        total += abs(a[i])
    for j in range(d):
        square += w[j] * w[j]
    eta = hyperplane_error(data, a)
    return 1.01 * UNIT * ((n + 2) * total + (d + 2) * square) + (2.02 * np.sqrt(square) + eta) * eta


@njit(cache=True)
def hyperplane_error(data: Samples, a: Vector) -> float:
    """A bound on the distance of :func:`hyperplane`'s w from ½ Σ a_i y_i x̃_i: γ_n+2 of what is added up."""
    n = data.A.shape[0]
    size = 0.0
    for i in range(n):
        if a[i] != 0.0:
            size += abs(a[i]) * np.sqrt(data.q[i])
    return 0.51 * UNIT * (n + 4) * size


@njit(cache=True)
def slope_blur(data: Samples, a: Vector, w: Vector) -> tuple[float, float]:
    """Numbers s and t such that a computed 1 − y_i w·x̃_i is off by s + t ‖x̃_i‖ at most."""
    d = data.A.shape[1]
    square = 0.0
    for j in range(d):
        square += w[j] * w[j]
    unit = 1.01 * UNIT * (d + 3)
    return unit, 1.01 * hyperplane_error(data, a) + unit * np.sqrt(square)


@njit(cache=True)
def caps_of(data: Samples, face: NDArray[Any], k: int, caps: Vector) -> None:
    """Set `caps` to the box of face k when positive p is assigned to ``face[p]``."""
    for i in range(data.inside):
        caps[i] = data.C[i]
    for p in range(len(face)):
        i = data.inside + p
        caps[i] = data.C[i] if face[p] == k else 0.0


@njit(cache=True)
def price(data: Samples, W: Vector, best: NDArray[Any]) -> float:
    """J(W), each positive on its best face, which is written to `best`."""
    n, d = data.A.shape
    J = 0.0
    for k in range(len(W)):
        for j in range(d):
            J += W[k, j] * W[k, j]
    for i in range(n):
        least = np.inf
        for k in range(len(W)):
            hinge = 1.0
            for j in range(d):
                hinge -= data.A[i, j] * W[k, j]
            hinge = max(hinge, 0.0)
            if i < data.inside:
                J += data.C[i] * hinge
            elif hinge < least:
                least = hinge
                best[i - data.inside] = k
        if i >= data.inside:
            J += data.C[i] * least
    return J


@njit(cache=True)
def follow(face: NDArray[Any], following: NDArray[Any]) -> int:
    """Make one assignment the same as another; in how many positives they differed."""
    moved = 0
    for p in range(len(face)):
        if following[p] != face[p]:
            face[p] = following[p]
            moved += 1
    return moved


@njit(cache=True)
def settle(data: Samples, face: NDArray[Any], W: Vector, precision: float) -> float:
    """Alternate from the assignment `face` until it stays; leave the faces in W and return J(W).

    Each face is raised until a sweep gains less than `precision`.
    """
    a, at = np.zeros((len(W), data.A.shape[0])), np.zeros(4)
    return _go_on(data, face, W, a, at, precision, np.inf)


def settle_in_time(
    data: Samples, face: NDArray[np.int64], W: Vector, precision: float, clock: Clock
) -> float:
    """:func:`settle`, until the clock is over; what it returns is J(W) in either case.

    The clock is looked at after every piece of some hundredths of a second. In time it comes to the same, to
    the last bit.
    """
    a, at, sweeps = np.zeros((len(W), data.A.shape[0])), np.zeros(4), max(_PIECE // data.A.size, 1.0)
    while not clock.is_over:
        J = _go_on(data, face, W, a, at, precision, sweeps)
        if np.isfinite(J):
            return J
    return price(data, W, face)


@njit(cache=True)
def _go_on(
    data: Samples, face: NDArray[Any], W: Vector, a: Vector, at: Vector, precision: float, sweeps: float
) -> float:
    """So many sweeps more of alternating; J(W), or inf where it has not ended.

    `at` is where it is, zeros at first: rounds and faces done, sweeps over the face at work, and what the
    round before came to.
    """
    n, K = data.A.shape[0], len(W)
    zero, caps, following = np.zeros(n), np.empty(n), np.empty(len(face), np.int64)
    J, done, begins = np.inf, 0.0, True
    while done < sweeps:
        k = int(at[1])
        if begins:
            caps_of(data, face, k, caps)
        if at[2] == 0.0:
            for i in range(n):
                a[k, i] = min(a[k, i], caps[i])
            hyperplane(data, a[k], W[k])
        most = np.int64(min(sweeps - done, _SWEEPS - at[2]))
        _, made, gained = _climb(data, zero, caps, a[k], W[k], most, np.inf, precision)
        done, at[2] = done + made, at[2] + made
        begins = gained <= precision or at[2] >= _SWEEPS
        if not begins:
            continue
        at[1], at[2] = at[1] + 1.0, 0.0
        if at[1] < K:
            continue
        J = price(data, W, following)
        moved = follow(face, following)
        at[0], at[1] = at[0] + 1.0, 0.0
        if moved == 0 or at[0] >= _ROUNDS or (at[0] > 1.0 and at[3] - precision <= J):
            return J
        at[3] = J
    return np.inf
