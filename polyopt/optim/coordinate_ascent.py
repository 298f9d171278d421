"""Dual bounds for large data: coordinate ascent on the duals of all faces of a polytope at once.

With a fixed assignment and the loss "sum", the faces are independent hinge programs that share their
samples (:mod:`polyopt.optim.coordinate_steps` states them). Where products with all the data
are expensive, changing one multiplier at a time converges much faster than gradient steps do (Hsieh et al.,
2008).

Most pairs of a sample and a face are at rest: far beyond the margin, with the multiplier 0. A scan over all
samples finds the other pairs, and the primal values at no extra cost. Between two scans each face makes
coordinate steps over its own active pairs only. A face whose gap is closed is left alone. Faces without
positives have the same program, which is solved once. :func:`climb` gives the multipliers for the bound of a
polytope's certificate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import polyopt.optim.coordinate_steps as loops
from polyopt.certificates.certificate import relative_gap
from polyopt.linalg.rows import as_rows, in_lanes, stretches

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Matrix, Vector
    from polyopt.linalg.rows import Rows

    Integers = NDArray[np.int64]

__all__ = ["FaceAscent", "climb"]

_SCAN_ROWS = 1 << 12  # samples scanned between two looks at what was found
_SCAN_FACES = 64  # faces scanned at once, at most
_MARGIN_BAND = 0.1  # distance beyond the margin up to which pairs are climbed as well
_FIRST_ACCURACY, _ACCURACY_FACTOR, _MIN_ACCURACY = 1e-2, 0.3, 1e-14  # of a climb, and from climb to climb
_FACES_TO_SWEEP = 8  # per active sample: for more, walking samples is cheaper than walking faces


class FaceAscent:
    """The duals of K faces, their multipliers, and how far from optimal they are.

    rows: samples, n of them with m features.
    caps (n, K): c_ik, the largest value of each multiplier; at positives, of the face that answers. It may be
        a broadcast (n,), and its columns are then known to be alike.
    assignment (n,): the face that answers for each positive; entries of negatives are ignored.
    single: whether scans and sweeps are made in single precision; climbs, multipliers and W are double.
    seed: of the order of the steps.

    W (K, m+1): the faces, ½ Σ α_ik y_i x̃_i, bias last.
    alpha (n, K): the multipliers, feasible at any time.
    assignment (n,): as it stands.
    scores (positives, K): scores of the positives as of the last scan.
    passes: work done so far, in visits of every sample.
    active: pairs that the last climbs went over.
    """

    def __init__(
        self, rows: Rows, y: Vector, caps: Vector, assignment: Integers, *, scale: float = 1.0,
        single: bool = False, seed: int = 0,
    ):  # fmt: skip
        n, K = caps.shape
        self._rows, self._samples = rows, (rows.values, rows.columns, rows.starts, rows.shared)
        self._scale, self.single = scale, single
        self._y, self._caps, self._alike = np.asarray(y, dtype=float), caps, caps.strides[1] == 0
        self._given_caps = np.ascontiguousarray(caps[:, :1] if self._alike else caps)
        self._squares = loops.square_lengths(rows, scale)
        self._marks = np.zeros(n, dtype=bool)
        self._rng = np.random.default_rng(seed)
        self._positives = np.flatnonzero(y > 0)
        self._slots = np.zeros(n, dtype=np.int64)
        self._slots[self._positives] = np.arange(len(self._positives))
        self.W, self.alpha = np.zeros((K, rows.width + 1)), np.zeros((n, K))
        self.assignment = np.where(y > 0, assignment, 0).astype(np.int64)
        self.passes, self.active = 0.0, 0
        self.scores = np.zeros((len(self._positives), K))
        self._inside, self._earned = np.zeros(K), np.zeros(K)
        self._scanned, self._settled = np.zeros(K, dtype=bool), np.zeros(K, dtype=bool)
        self._accuracy = np.full(K, _FIRST_ACCURACY)
        self._solved = -1
        # The samples, in their order, whose pair with the face may move; all that hold it are among them.
        self._pools: list[Integers] = [np.empty(0, dtype=np.int64)] * K
        self._gather()

    # -- values --------------------------------------------------------------------------------

    @property
    def primal(self) -> Vector:
        """Primal value (K,) of every face, where it was scanned."""
        return self.values_at(np.einsum("kj,kj->k", self.W, self.W) + self._inside, self.scores)

    @property
    def dual(self) -> Vector:
        """Dual value (K,) of every face."""
        return np.asarray(self._earned - np.einsum("kj,kj->k", self.W, self.W))

    def values_at(self, others: Vector, scores: Vector) -> Vector:
        """`others` (K,) and what each face pays for its positives at the scores (positives, K)."""
        at = self._positives
        faces = self.assignment[at]
        hinges = np.maximum(0.0, 1.0 - scores[np.arange(len(at)), faces])
        return others + np.bincount(faces, self._caps[at, faces] * hinges, minlength=len(self.W))

    @property
    def inside(self) -> Vector:
        """Loss of every face on the negatives (K,), as of the last scan."""
        return self._inside

    def own_pull(self) -> Vector:
        """½ α_i ‖x̃_i‖² of every positive: what its own multiplier adds to its score."""
        at = self._positives
        return np.asarray(0.5 * self.alpha[at, self.assignment[at]] * self._squares[at])

    # -- steps ---------------------------------------------------------------------------------

    def sweep(self, rows: Integers | None = None, times: int = 1) -> None:
        """Walk the samples (all by default) in random order, stepping on all faces of each at once."""
        rows = np.arange(len(self._y)) if rows is None else rows
        U = self._lanes(np.arange(len(self.W)))
        work = np.zeros((2, U.shape[1]), dtype=U.dtype)
        for _ in range(times):
            order = self._rng.permutation(rows)
            for first, last in stretches(len(order), self._rows, U.shape[1]):
                loops.sweep(
                    *self._samples, self._scale, self._y, self._given_caps, self._squares, order[first:last],
                    self.assignment, U, self.alpha, work,
                )  # fmt: skip
        self.passes += times * len(rows) / len(self._y)
        self.W = U[:, : len(self.W)].T.astype(float, order="C")
        self._earned = self.alpha.sum(axis=0)
        self._refill()
        self._scanned[:] = self._settled[:] = False

    def scan(self) -> None:
        """Score the faces that have changed since they were scanned, and find what may move."""
        faces = np.flatnonzero(~self._scanned)
        faces = faces[~np.isin(faces, self._spared)]
        found: list[NDArray[Any]] = []
        for first in range(0, len(faces), _SCAN_FACES):
            found += self._scan(faces[first : first + _SCAN_FACES])
        self.passes += len(faces) / max(len(self.W), 1)
        if found:
            rows, owners = np.concatenate(found, axis=1)
            order = np.argsort(owners, kind="stable")
            ends = np.bincount(owners, minlength=len(self.W)).cumsum()
            rows = rows[order]
            for k in faces.tolist():
                self._join(k, rows[(ends[k - 1] if k else 0) : ends[k]])
        if not self._scanned[self._spared].all() or self._solved in faces:
            self._copy(self._solved, self._spared)
        self._scanned[:] = True

    def climb(self, tol: float, accuracy: float | None = None, passes: int = 20) -> None:
        """Climb the faces whose gap is above `tol` times their share of the objective.

        tol: relative gap that will do.
        accuracy: largest slope that a climb may leave behind. By default each face's own, which a face lowers
            from climb to climb for as long as its gap is too large.
        passes: passes over a face's pairs at most.
        """
        values = self.primal  # of the last scan: where a face has changed since, it is open anyway
        gaps = values - self.dual
        open_ = ~self._settled | (gaps > 0.5 * tol * (values + values.mean()))
        open_[self._spared] = False
        faces = np.flatnonzero(open_).tolist()
        pools = [self._with_own(k) for k in faces]
        self.active = sum(map(len, pools))
        if self.active > _FACES_TO_SWEEP * len(self._y) // 4 and len(self.W) > 1:
            rows = np.unique(np.concatenate(pools))
            if self.active > _FACES_TO_SWEEP * len(rows):
                self.sweep(rows, 5)
                return
        for k, pool in zip(faces, pools, strict=True):
            self._climb(k, pool, self._accuracy[k] if accuracy is None else accuracy, passes)
            if accuracy is None:
                self._accuracy[k] = max(_ACCURACY_FACTOR * self._accuracy[k], _MIN_ACCURACY)

    def reassign(self, assignment: Integers) -> None:
        """Let other faces answer for some positives; their multipliers on the old ones become 0."""
        at = self._positives
        moved = at[assignment[at] != self.assignment[at]]
        old = self.assignment[moved]
        for k in np.unique(old):
            rows = moved[old == k]
            rows = rows[self.alpha[rows, k] > 0.0]
            if len(rows):
                loops.add_rows(self._rows, self._scale, rows, -0.5 * self.alpha[rows, k], self.W[k])
                self._earned[k] -= self.alpha[rows, k].sum()
                self.alpha[rows, k] = 0.0
                self._scanned[k] = False
        touched = np.union1d(old, assignment[moved])
        self._settled[touched] = False
        self._accuracy[touched] = np.maximum(self._accuracy[touched], _FIRST_ACCURACY)
        self.assignment = np.where(self._y > 0, assignment, 0).astype(np.int64)
        self._gather()

    def begin_from(self, alpha: ArrayLike) -> None:
        """Take these multipliers (n, K), made feasible, for the present ones."""
        given = np.clip(np.asarray(alpha, dtype=float), 0.0, self._caps)
        if given.shape != self.alpha.shape or not np.isfinite(given).all():
            raise ValueError(f"alpha must be finite, of shape {self.alpha.shape}; its shape is {given.shape}")
        at, faces = self._positives, self.assignment[self._positives]
        own = given[at, faces]
        given[at] = 0.0
        given[at, faces] = own
        self.alpha[:] = given
        self._refill()
        self.check()

    def check(self) -> float:
        """The relative gap, everything computed anew from the multipliers in double precision."""
        self.single, single = False, self.single
        self.W[:] = 0.0
        for k, pool in enumerate(self._pools):
            alpha = self.alpha[pool, k]
            loops.add_rows(self._rows, self._scale, pool, 0.5 * self._y[pool] * alpha, self.W[k])
            self._earned[k] = alpha.sum()
        self._scanned[:] = False
        self.scan()
        self.single = single
        return self.gap

    @property
    def gap(self) -> float:
        """The relative gap, as of the last scan."""
        return relative_gap(float(self.primal.sum()), float(self.dual.sum()))

    # -- parts ---------------------------------------------------------------------------------

    def _gather(self) -> None:
        """The positives of every face; of the faces without, which are all alike, the one solved for all."""
        faces = self.assignment[self._positives]
        order = np.argsort(faces, kind="stable")
        ends = np.bincount(faces, minlength=len(self.W)).cumsum()
        self._own = np.split(self._positives[order], ends[:-1])
        empty = np.array(
            [k for k, own in enumerate(self._own) if self._alike and not len(own)], dtype=np.int64
        )
        if len(empty) and self._solved not in empty:
            self._solved = int(empty[np.argmax(self._settled[empty])])
        self._spared = empty[empty != self._solved]

    def _refill(self) -> None:
        """Pools of the pairs with multipliers, and of no others."""
        rows, owners = np.nonzero(self.alpha)
        order = np.argsort(owners, kind="stable")
        ends = np.bincount(owners, minlength=len(self.W)).cumsum()
        self._pools = np.split(rows[order], ends[:-1])

    def _lanes(self, faces: Integers) -> NDArray[Any]:
        return in_lanes(self.W[faces], np.float32 if self.single else np.float64)

    def _scan(self, faces: Integers) -> list[NDArray[Any]]:
        """Scan all samples on some faces, and return the pairs (2, any number) that may move."""
        U, n, found = self._lanes(faces), len(self._y), []
        pairs, out = np.empty((2, min(_SCAN_ROWS, n) * len(faces)), dtype=np.int32), np.empty_like(U[0])
        self._inside[faces] = 0.0
        for first, last in stretches(n, self._rows, U.shape[1], _SCAN_ROWS):
            used = loops.scan(
                *self._samples, self._scale, U, faces, first, last, self._y, self._given_caps, self._slots,
                -1.0 - _MARGIN_BAND, self.scores, self._inside, pairs, out,
            )  # fmt: skip
            found.append(pairs[:, :used].copy())
        return found

    def _join(self, k: int, rows: NDArray[Any]) -> None:
        """The pool of a face: what holds it, and what a scan has found near or beyond the margin."""
        pool = self._pools[k]
        self._pools[k] = self._union(pool[self.alpha[pool, k] > 0.0], rows)

    def _with_own(self, k: int) -> Integers:
        """The face's pool, with those of its own positives that are not at rest as of the last scan."""
        pool, own = self._pools[k], self._own[k]
        near = (self.alpha[own, k] > 0.0) | (self.scores[self._slots[own], k] < 1.0 + _MARGIN_BAND)
        return self._union(pool[self._y[pool] < 0.0], own[near])

    def _union(self, some: NDArray[Any], others: NDArray[Any]) -> Integers:
        """The samples of two lists, in their order."""
        self._marks[some] = self._marks[others] = True
        found = np.flatnonzero(self._marks)
        self._marks[found] = False
        return found

    def _climb(self, k: int, pool: Integers, accuracy: float, passes: int) -> None:
        alpha = self.alpha[pool, k]
        made = loops.climb_face(
            self._rows, self._scale, self._y[pool], self._caps[pool, k], self._squares[pool], pool, alpha,
            self.W[k], accuracy, passes, int(self._rng.integers(1 << 31)),
        )  # fmt: skip
        self.passes += made * len(pool) / (len(self._y) * len(self.W))
        self.alpha[pool, k] = alpha
        self._pools[k], self._earned[k] = pool, alpha.sum()
        self._scanned[k], self._settled[k] = False, True

    def _copy(self, k: int, others: Integers) -> None:
        """Give the multipliers and the values of face k to others that have the same program."""
        pool = self._pools[k]
        for other in others:
            self.alpha[self._pools[other], other] = 0.0
            self.alpha[pool, other] = self.alpha[pool, k]
            self._pools[other] = pool
        for values in (self.W, self._inside, self._earned, self._settled, self._accuracy):
            values[others] = values[k]
        self.scores[:, others] = self.scores[:, [k]]


def climb(
    X: Matrix,
    y: Vector,
    costs: ArrayLike,
    n_faces: int,
    assignment: Integers,
    primal_value: float,
    tol: float,
) -> Vector:
    """Multipliers of the faces of a polytope that come near their optimum, for its bound.

    X, y: samples (n, m) and labels -1 and +1.
    costs (n,) or (n, K): cost of a sample's slack, on every face or on each.
    n_faces: K.
    assignment (n,): the face that answers for each positive; entries of negatives are ignored.
    primal_value: an upper bound on the optimum; the climb ends within `tol` of it, or of the optimum.
    Returns (n, K): feasible multipliers: ``Σ α − ¼ Σ_k ‖Σ_i α_ik y_i x̃_i‖²`` is a lower bound on the
        optimum.
    """
    given = np.asarray(costs, dtype=float)
    caps = np.broadcast_to(given[:, None] if given.ndim == 1 else given, (len(y), n_faces)).copy()
    ascent = FaceAscent(as_rows(X), y, caps, assignment)
    ascent.sweep(times=2)
    for _ in range(30):
        ascent.scan()
        least = min(float(ascent.primal.sum()), primal_value)
        if relative_gap(least, float(ascent.dual.sum())) <= tol:
            break
        ascent.climb(tol)
    return ascent.alpha
