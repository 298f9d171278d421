"""One face of the Convex Polytope Machine on small dense data: its dual, a coordinate at a time.

The samples stand as rows y_i x̃_i, those inside (y = -1) first. For a face that answers for the
positives in P the dual is

    max  D(a) = Σ a_i − ‖w‖²,   w = ½ Σ a_i y_i x̃_i,   0 ≤ a_i ≤ C_i, and a_i = 0 for positives not in P,

and whatever a satisfies its box bounds the optimum of the face from below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.linalg.rounding import UNIT
from polyopt.native.library import Struct, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.clock import Clock
    from formulations.language.types import Vector

__all__ = [
    "UNIT",
    "Best",
    "Samples",
    "caps_of",
    "climb",
    "climb_in_time",
    "dual_error",
    "dual_value",
    "hyperplane",
    "price",
    "settle_in_time",
]

_PIECE = 2**25  # numbers that a kernel reads in one call: some hundredths of a second


class Samples(Struct):
    """Rows y_i x̃_i (n, d), their squared lengths and costs (n,), and how many of them are negatives."""

    signature = "A: f8 (n, d); q: f8 (n); C: f8 (n); inside: i8"
    A: Vector
    q: Vector
    C: Vector
    inside: int


class Best(Struct):
    """The incumbent W (K, d), and limits (3,).

    These are the least cost known, the least bound of what was cut, and by how much any bound that was
    computed may be above the true one, by the rounding of its evaluation.
    """

    signature = "W!: f8 (K, d); limits!: f8 (l)"
    W: Vector
    limits: Vector


# Set w to ½ Σ a_i y_i x̃_i.
hyperplane = kernel("cpm_hyperplane", "data: Samples; a: f8 (n); w!: f8 (d)")

# D(a) for the w that belongs to a.
dual_value = kernel("cpm_dual_value", "a: f8 (n); w: f8 (d)", returns="f8")

# How far dual_value may be above D(a), for the w that hyperplane gives.
dual_error = kernel("cpm_dual_error", "data: Samples; a: f8 (n); w: f8 (d)", returns="f8")

# Set caps to the box of face k when positive p is assigned to face[p].
caps_of = kernel("cpm_caps_of", "data: Samples; face: i8 (p); k: i8; caps!: f8 (n)")

# J(W), each positive on its best face, which is written to best.
price = kernel("cpm_price", "data: Samples; W: f8 (K, d); best!: i8 (p)", returns="f8")

# Raise D over the box [low, high] by so many sweeps, until they have gained `enough`, or one of them no more
# than `least`; done (3,): by how much in all, by how much in the last sweep, and in how many.
_climb = kernel(
    "cpm_climb",
    "data: Samples; low: f8 (n); high: f8 (n); a!: f8 (n); w!: f8 (d); sweeps: i8; enough: f8; least: f8; "
    "done!: f8 (t)",
)

# So many sweeps more of alternating; J(W), infinity if it has not ended, or -1 without memory. at (4,) is
# where it is, zeros at first: rounds and faces done, sweeps over the face at work, J after the round before.
_alternate = kernel(
    "cpm_alternate",
    "data: Samples; face!: i8 (p); W!: f8 (K, d); a!: f8 (K, n); at!: f8 (t); precision: f8; sweeps: f8",
    returns="f8",
)


def _sweeps_a_call(data: Samples) -> int:
    """Return how many sweeps a kernel makes in some hundredths of a second."""
    return int(max(_PIECE // max(data.A.size, 1), 1))


def climb(
    data: Samples, low: Vector, high: Vector, a: Vector, w: Vector, sweeps: int, enough: float, least: float
) -> float:
    """Raise D over the box [low, high] by sweeps, in place; return by how much.

    The sweeps end once they have gained `enough`, or one of them no more than `least`.
    """
    total, done, piece = 0.0, np.zeros(3), _sweeps_a_call(data)
    while sweeps > 0:
        _climb(data, low, high, a, w, min(sweeps, piece), enough - total, least, done)
        total, sweeps = total + done[0], sweeps - piece
        if total >= enough or done[1] <= least:
            break
    return float(total)


def climb_in_time(
    data: Samples, high: Vector, a: Vector, w: Vector, sweeps: int, least: float, clock: Clock
) -> None:
    """:func:`climb` over the box [0, high], until the clock is over; it is looked at after every piece."""
    low, done, piece = np.zeros_like(a), np.zeros(3), _sweeps_a_call(data)
    while sweeps > 0:
        _climb(data, low, high, a, w, min(sweeps, piece), np.inf, least, done)
        sweeps -= piece
        if done[1] <= least or clock.is_over:
            return


def settle_in_time(
    data: Samples, face: NDArray[np.int64], W: Vector, precision: float, clock: Clock
) -> float:
    """Alternate from the assignment `face` until it stays; leave the faces in W and return J(W).

    Each face is raised until a sweep gains less than `precision`. The clock is looked at after every piece of
    some hundredths of a second: what is returned is J(W) even if time is up.
    """
    a, at, sweeps = np.zeros((len(W), data.A.shape[0])), np.zeros(4), float(_sweeps_a_call(data))
    while not clock.is_over:
        J = _alternate(data, face, W, a, at, precision, sweeps)
        if J < 0.0:
            raise MemoryError
        if np.isfinite(J):
            return float(J)
    return float(price(data, W, face))
