"""A bound on all assignments of the Convex Polytope Machine from all samples at once, for data of any size.

The theorem of :mod:`polyopt.outer.cpm.spread` asks nothing of the moves but that they keep within the boxes.
At its root nobody is assigned, all K faces have the same multipliers and all shares are 1/K, and it says:

Theorem. Let each positive i have β_i ≤ C_i and move the multipliers of some negatives by δ_ij, with
a_j + Σ_i [δ_ij]_+ ≤ C_j and a_j ≥ Σ_i [−δ_ij]_+; let e_i = β_i x̃_i − Σ_j δ_ij x̃_j, v = −K Σ_j a_j x̃_j +
Σ_i e_i, and Σ_i e_i e_i' / d_i ⪯ I. Then every assignment to K faces costs at least

    K Σ_j a_j + Σ_i ( β_i + Σ_j δ_ij ) − ‖v‖² / (4 K) − ¼ (1 − 1/K) Σ_i d_i.

Proof. With shares 1/K the spread's terms of i add up, over the K faces and the one that i is on, to
½ v·e_i / K − ½ v·e_i / K in the products of its v (this v over K) and e_i, which are gone, and to
−¼ d_i (1/K + 1 − 2/K) in the lengths. ∎

A search of groups has every negative moved by every positive of its group, which takes samples times
positives times squared dimensions for a sweep: so groups are small, and their faces fit each of them by
itself. Here a positive moves only negatives near to it, as others would make e_i long, and all samples are
taken together: nothing is lost by a division, and a sweep takes positives times neighbours. Where a positive
has the place of a negative, a *twin*, e_i = 0 for β_i = δ_ij: the two cost twice the lesser of their costs on
whichever face, and in many dimensions that is most of what is proven.

Rounding is that of :mod:`polyopt.solvers.cpm.spread_bound`, of the sums over faces and samples, and of merged
costs, each a term.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.rounding import gamma
from polyopt.outer.cpm.prepared import merge
from polyopt.outer.cpm.spread_node import SIDE
from polyopt.solvers.cpm.spread import WHOLE, Ground, Spread, everyone
from polyopt.solvers.cpm.spread_bound import prove_face, raised, within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.clock import Clock
    from polyopt.solvers.cpm.face import Samples
    from polyopt.solvers.cpm.spread_bound import Proven

    Places = NDArray[np.int32]

__all__ = ["bound_by_neighbours"]

_MOST, _LEAST = 128, 16  # neighbours of a positive, and their number times positives times squared dimensions
_MOVES = 2e9  # of which there are no more than these, but for the least
_DISTANCES = 5e10  # positives times negatives times dimensions; beyond, neighbours are sought among some
_BLOCK = 512  # positives whose distances are taken at once
# Chosen on magic and a9a.
# Barriers, as of a spread's root, and by which share of the time each of them is to end; without a limit
# sweeps of each, and how much they may work on all samples.
_BARRIERS = ((0.3, 0.35), (0.1, 0.6), (0.03, 0.8), (0.01, 0.95), (0.003, 1.0))
_SWEEPS, _WORK = 180, 2e10
_FIRST = 0.01  # of its cost: the first multiplier of a sample


def bound_by_neighbours(
    X: Vector, y: Vector, C: Vector, n_faces: int, cost: float, clock: Clock, seed: int
) -> float:
    """What all samples together prove of every assignment.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Samples.
    y : ndarray of shape (n,)
        Labels: -1 inside, +1 outside; both present.
    C : ndarray of shape (n,)
        Cost of slack, per sample.
    n_faces : int
        K, at least 2.
    cost : float
        Of a known point, by which barriers are scaled.
    clock : Clock
        Running; the time that it has left is used up. Without a limit the work is limited.
    seed : int
        Of the order of the samples.

    Returns
    -------
    float
        The bound; 0 where nothing better is found.
    """
    rng = np.random.default_rng(seed)
    data, _ = merge(X, y, C, rng)
    (n, d), inside = data.A.shape, data.inside
    npos = n - inside
    if npos == 0 or inside == 0:
        return 0.0
    count = int(min(_MOST, max(_LEAST, _MOVES / (npos * d * d)), inside))
    near, twins = _with_twins(data, _nearest(data, count, rng))
    ground = Ground(
        data.A[:inside], data.q[:inside], data.C[:inside], data.A[inside:], data.C[inside:],
        np.full(npos, 1.0 / n_faces), near,
    )  # fmt: skip
    best = _worth(prove_face(ground, _twins_alone(ground, twins))[0], n_faces)
    spread = _first(ground, twins, cost / (2 * n * n_faces))
    unit, most = cost / (n_faces * (2 * n + d)), _sweeps(npos * count * d * d)
    begun, whole = clock.seconds, clock.left
    for barrier, until in _BARRIERS:
        made, chunk = 0, WHOLE
        while not clock.is_over and (
            made < most if whole is None else clock.seconds - begun < until * whole
        ):  # fmt: skip
            before = clock.seconds
            spread = raised(ground, spread, barrier * unit, chunk)
            best = max(best, _worth(prove_face(ground, spread)[0], n_faces))
            made += chunk
            if whole is not None and clock.seconds - before < 0.02 * whole:
                chunk *= 2
    # Costs of equal samples were added up, which scales the optimum by no more than this.
    best -= 2.0 * gamma(len(y) + 4) * abs(best)
    return max(float(np.nextafter(best, -np.inf)), 0.0)


def _sweeps(work: float) -> int:
    """How many sweeps of so much work each are made, where there is no limit in seconds."""
    return WHOLE * int(min(max(_WORK / (len(_BARRIERS) * work * WHOLE), 1), _SWEEPS // WHOLE))


def _nearest(data: Samples, count: int, rng: np.random.Generator) -> Places:
    """Places (npos, count) of negatives near to each positive, in any order."""
    inside, d = data.inside, data.A.shape[1]
    if count == inside:
        return everyone(len(data.C) - inside, inside)
    points = data.A[inside:].astype(np.float32)
    most = max(int(_DISTANCES / (len(points) * d)), count + 1)
    among = np.sort(rng.permutation(inside)[:most])
    others = -data.A[among].astype(np.float32)
    half = 0.5 * np.square(others).sum(axis=1)
    blocks = []
    for first in range(0, len(points), _BLOCK):
        far = half - points[first : first + _BLOCK] @ others.T
        blocks.append(among[np.argpartition(far, count - 1, axis=1)[:, :count]])
    return np.vstack(blocks).astype(np.int32)


def _with_twins(data: Samples, near: Places) -> tuple[Places, Vector]:
    """The places with each positive's twin among them, and there the lesser of both costs, (npos, c)."""
    inside = data.inside
    rows = np.vstack([-data.A[:inside], data.A[inside:]]) + 0.0  # of the two zeros one
    _, name = np.unique(rows, axis=0, return_inverse=True)
    name = name.ravel()
    of = np.full(len(name), -1)
    of[name[:inside]] = np.arange(inside)
    twin = of[name[inside:]]
    paired = np.flatnonzero(twin >= 0)
    pays = np.zeros(near.shape)
    missing = paired[~(near[paired] == twin[paired, None]).any(axis=1)]
    near[missing, 0] = twin[missing]
    column = (near[paired] == twin[paired, None]).argmax(axis=1)
    pays[paired, column] = np.minimum(data.C[inside + paired], data.C[twin[paired]])
    return near, pays


def _twins_alone(ground: Ground, twins: Vector) -> Spread:
    """Multipliers of twins, and of nobody else."""
    p, d = ground.P.shape
    return Spread(np.zeros(len(ground.C)), twins, twins.sum(axis=1), np.zeros((p, d)), np.ones(p))


def _first(ground: Ground, twins: Vector, size: float) -> Spread:
    """Multipliers of twins, and a little more of everyone."""
    p, d = ground.P.shape
    paired = twins.sum(axis=1)
    taken = np.bincount(ground.near.ravel(), twins.ravel(), minlength=len(ground.C))
    a = np.minimum(0.5 * (ground.C - taken), size)
    own = np.minimum(_FIRST * ground.B, size)
    lengths = own**2 * np.square(ground.P).sum(axis=1) * 2 * p
    more = np.minimum(own, ground.B - paired)
    return within(ground, Spread(a, twins, paired + more, np.zeros((p, d)), lengths), SIDE * ground.C)


def _worth(proven: Proven, n_faces: int) -> float:
    """What a face proves of all K, which have the same multipliers."""
    value = n_faces * (proven.constant + proven.off.sum()) + proven.on.sum()
    size = n_faces * (abs(proven.constant) + np.abs(proven.off).sum()) + np.abs(proven.on).sum()
    return float(value - n_faces * proven.error - 2.0 * gamma(len(proven.on) + n_faces + 8) * size)
