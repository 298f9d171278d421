"""The least of a quadratic model of faces with a price: sweeps over groups of weights, Newton's between.

    min  g·(V − W) + ½ (V − W)'H(V − W) + λ Σ |V_kj| + τ Σ_l ‖V of group l‖,      signs kept,

for faces V (K, m+1) taken as one vector, H positive definite. A sweep lowers it one weight, or one group,
after the other, and finds which are 0. With these held at 0, and no sign changed, the rest is smooth, and a
step of Newton's is nearly its optimum. A gap says when it is enough: for pulls P = ρV − slope, with ρ below
every eigenvalue of H,

    ρ/2 ‖V‖² + price(V) + ‖shrunk P‖²/(2ρ) − P·V  ≥  what V is above the optimum.

Newton's steps stay in their orthant (:func:`step_within`), as a price has kinks at 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.types import Array, Vector
from polyopt.native.library import kernel
from polyopt.optim.logistic_newton import solve_scaled

Numbers = NDArray[np.int64]


_MAX_LEGS = 60  # of a step, each up to an entry that comes to 0
_SWEEPS, _ROUNDS = 3, 60  # sweeps between two steps of Newton's, and such rounds at most
_HALVINGS = 6  # halvings of a step of Newton's
_MIN_REL_FALL = 1e-15  # of the value, a decrease that is none

# Lower the model in each group, one after the other, in so many sweeps; r is the slope of its smooth part
# at v. `begins` and `ends` are places in `members`, `cut` is room to work in.
_sweep = kernel(
    "sweep_groups",
    "H: f8 (v, v); r!: f8 (v); v!: f8 (v); begins: i8 (g); ends: i8 (g); members: i8 (v); up: f8 (v); "
    "down: f8 (v); prices: f8 (g); steep: f8 (g); cut!: f8 (v); sweeps: i8",
)  # fmt: skip


def step_within(H: Array, down: Array, at: Array, signs: Array) -> Array:
    """A step of Newton's that leaves no orthant: an entry that comes to 0 stays there, the others go on.

    Every leg lowers the quadratic model, which is convex, so the whole step is one of descent.

    H (k, k): positive definite.
    down (k,): the way of steepest descent.
    at (k,): where the step begins.
    signs (k,): the sign that an entry keeps; 0 where it may change.
    """
    free, here, slope = np.ones(len(at), dtype=bool), at.copy(), down.copy()
    for _ in range(_MAX_LEGS):
        step = np.zeros_like(at)
        step[free] = solve_scaled(H[np.ix_(free, free)], slope[free])
        crossing = free & (signs != 0.0) & (signs * (here + step) < 0.0)
        if not crossing.any():
            return here + step - at
        shares = np.divide(-here, step, out=np.full(len(at), np.inf), where=crossing)
        share = float(shares.min())
        stops = shares <= share * (1.0 + 1e-9)
        here, slope = here + share * step, slope - share * (H @ step)
        here[stops], free = 0.0, free & ~stops
    return here - at


@dataclass(frozen=True)
class Places:
    """Where the groups of weights are in faces (K, m+1) taken row by row, a bias being a group of its own.

    starts, members: the entries of group g are ``members[starts[g]:starts[g + 1]]``.
    up, down (K(m+1): what a positive and a negative pull lose at an entry; infinite where the sign forbids
        it.
    prices (groups,): τ, and 0 for a bias.
    smooth (K(m+1): where nothing is priced, and no sign is asked.
    """

    starts: Numbers
    members: Numbers
    up: Vector
    down: Vector
    prices: Vector
    smooth: NDArray[np.bool_]

    @staticmethod
    def of(penalty: FacePenalty, n_faces: int) -> Places:
        """The places of a price's groups in so many faces."""
        labels = np.tile(np.append(penalty.groups, -1), n_faces)
        biases = labels < 0
        labels[biases] = penalty.n_groups + np.arange(n_faces)
        counts = np.bincount(labels, minlength=penalty.n_groups + n_faces)
        up, down = (np.tile(np.append(each, 0.0), n_faces) for each in penalty.thresholds)
        prices = np.append(np.full(penalty.n_groups, penalty.group), np.zeros(n_faces))
        smooth = (up == 0.0) & (down == 0.0) & (biases | (penalty.group == 0.0))
        starts = np.append(0, np.cumsum(counts))
        return Places(starts, np.argsort(labels, kind="stable"), up, down, prices, smooth)


def _gap(penalty: FacePenalty, W: Vector, slope: Vector, ridges: Vector) -> float:
    """What faces W (K, m+1) with this slope are above the optimum at most, but for rounding; 0 or more."""
    pulls = ridges * W - slope
    left = penalty.shrunk(pulls)
    own = 0.5 * (ridges * W * W + left * left / ridges) - pulls * W
    return max(float(own.sum()) + penalty.value(W), 0.0)


def least_of_model(
    penalty: FacePenalty, places: Places, W: Vector, slope: Vector, H: Vector, ridges: Vector,
    active: NDArray[np.bool_], enough: float,
) -> Vector:  # fmt: skip
    """Faces (K, m+1) near the least of the model, and never above W in it.

    penalty, places: the price, and :meth:`Places.of` it.
    W, slope (K, m+1): where to begin, with signs kept, and g.
    H (K(m+1): positive definite in the active entries.
    ridges (m+1,): ρ, below every eigenvalue of H; alike within a group of features.
    active (K, m+1): the entries that may change; the others are 0.
    enough: the gap at which to stop.
    """
    v, r, at, moves = W.ravel().copy(), slope.ravel().copy(), W.ravel(), active.ravel()
    steep, cut = _steepness(places, H), np.empty_like(v)
    up, down = (np.where(moves, each, np.inf) for each in (places.up, places.down))

    def is_enough() -> bool:
        left = np.where(moves, r, 0.0).reshape(W.shape)
        return _gap(penalty, v.reshape(W.shape), left, ridges) <= enough

    value = penalty.value(W)
    for _ in range(_ROUNDS):
        before = value
        _sweep(
            H, r, v, places.starts[:-1], places.starts[1:], places.members, up, down, places.prices, steep,
            cut, _SWEEPS,
        )  # fmt: skip
        r = slope.ravel() + H @ (v - at)
        value = _value(penalty, v, at, slope, r)
        if is_enough():
            break
        v, r, value = _newton(penalty, places, v, r, H, (at, slope, value), moves)
        if is_enough():
            break
        if before - value <= _MIN_REL_FALL * abs(value):
            break
    return v.reshape(W.shape)


def _value(penalty: FacePenalty, v: Vector, at: Vector, slope: Vector, r: Vector) -> float:
    moved = v - at
    return 0.5 * float(moved @ (r + slope.ravel())) + penalty.value(v.reshape(slope.shape))


def _newton(
    penalty: FacePenalty, places: Places, v: Vector, r: Vector, H: Vector,
    known: tuple[Vector, Vector, float], moves: NDArray[np.bool_],
) -> tuple[Vector, Vector, float]:  # fmt: skip
    """A step with the zeros held, shortened until the model falls; no step where it does not."""
    at, slope, value = known
    used = np.flatnonzero(moves & ((v != 0.0) | places.smooth))
    push = r + np.where(v > 0.0, places.up, np.where(v < 0.0, -places.down, 0.0))
    M = H[np.ix_(used, used)]
    if penalty.group > 0.0:
        M, push = _with_lengths(penalty, v, used, M, push)
    step = np.zeros_like(v)
    bounded = (places.up > 0.0) | (places.down > 0.0)
    step[used] = step_within(M, -push[used], v[used], np.where(bounded, np.sign(v), 0.0)[used])
    size = 1.0
    for _ in range(_HALVINGS):
        trial = v + size * step
        left = slope.ravel() + H @ (trial - at)
        found = _value(penalty, trial, at, slope, left)
        if found < value:
            return trial, left, found
        size *= 0.5
    return v, r, value


def _with_lengths(
    penalty: FacePenalty, v: Vector, used: Numbers, M: Vector, push: Vector
) -> tuple[Vector, Vector]:
    """Curvature and slope of the groups' lengths, τ (I/‖v‖ − v v'/‖v‖³) and τ v/‖v‖, where not 0."""
    faces = v.reshape(-1, penalty.n_features + 1)
    lengths = penalty.lengths(faces[:, :-1])
    own = np.tile(np.append(penalty.groups, -1), len(faces))
    length = np.where(own >= 0, lengths[own], 0.0)
    share = np.divide(penalty.group, length, out=np.zeros_like(v), where=length > 0.0)
    along = np.divide(v, length, out=np.zeros_like(v), where=length > 0.0)
    same = own[used][:, None] == own[used][None, :]
    M = M - np.where(same, (share * along)[used][:, None] * along[used][None, :], 0.0)
    M.flat[:: len(M) + 1] += share[used]
    return M, push + share * v


def _steepness(places: Places, H: Vector) -> Vector:
    """For each group with a price the largest eigenvalue of its own part of H; 0 for the others."""
    steep = np.zeros(len(places.prices))
    for g in np.flatnonzero(places.prices > 0.0):
        mine = places.members[places.starts[g] : places.starts[g + 1]]
        steep[g] = np.linalg.eigvalsh(H[np.ix_(mine, mine)])[-1]
    return steep
