"""Alternating minimisation for a union of polytopes, by dual coordinate ascent.

For fixed assignments the program of :mod:`formulations.cpm_union` falls into one for each face, which differ
by their costs alone. A round climbs the duals of the faces that are not solved well enough, over the samples
near their margins, and scores the samples at the faces that have changed. Once the objective has fallen,
samples inside move to the piece in which they pay least, and samples outside to their best face of each
piece; what they held on their old faces becomes 0, and the climb goes on from the rest. Where none is to
move, the gap is closed to the tolerance.

A point is taken only where its objective is no higher than that of the last one taken at the assignments made
since, so the objective never rises from one point to the next, however coarse the climbs are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

import polyopt.certificates.coordinate_kernels as loops
from formulations.union import best_faces, per_piece
from polyopt.certificates.certificate import relative_gap
from polyopt.rows import as_rows
from polyopt.watch import tell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Matrix, Vector
    from polyopt.solvers.clock import Clock

    Integers = NDArray[np.int64]

__all__ = ["UnionEngine", "UnionPoint"]

_NEAR = 0.1  # samples this close to a face's margin are climbed as well
_PASSES = 20  # over a face's samples, in a round
_FIRST, _STRICTER, _STRICTEST = 0.1, 0.3, 1e-14  # accuracy of a climb: at first, then from climb to climb
_GAIN = 1e-7  # a hinge must fall by more than this for a sample to move


@dataclass(frozen=True)
class UnionPoint:
    """Faces of a union of polytopes with their assignments.

    Attributes
    ----------
    pieces : ndarray of int, shape (K,)
        The piece of each face.
    inside : ndarray of int, shape (n,)
        The piece of each sample inside, -1 for those outside.
    outside : ndarray of int, shape (n, D)
        A face of every piece for each sample outside, -1 for those inside.
    W : ndarray of shape (K, m+1)
        Faces, the bias last.
    alpha : ndarray of shape (n, K)
        Multipliers, which are feasible.
    outputs : ndarray of shape (n, K)
        Scores of the samples at the faces.
    objective, bound : float
        Of the program for these assignments, at W and at alpha.
    is_fixed : bool
        Whether no sample is to move and the gap is closed.
    rounds : int
        Made to come here.
    is_interrupted : bool
        Whether Ctrl-C ended them.
    """

    pieces: Integers
    inside: Integers
    outside: Integers
    W: Vector
    alpha: Vector
    outputs: Vector
    objective: float = np.inf
    bound: float = 0.0
    is_fixed: bool = False
    rounds: int = 0
    is_interrupted: bool = False

    @property
    def n_pieces(self) -> int:
        """D."""
        return int(self.pieces[-1]) + 1

    def only(self, faces: NDArray[np.bool_]) -> UnionPoint:
        """The point without some faces, at least one of which stays; its assignments are to be made anew."""
        _, pieces = np.unique(self.pieces[faces], return_inverse=True)
        return replace(
            self, pieces=pieces.astype(np.int64), W=self.W[faces], alpha=self.alpha[:, faces],
            outputs=self.outputs[:, faces], objective=np.inf,
        )  # fmt: skip


class UnionEngine:
    """What all points of one problem share: the samples as compiled loops read them, and the steps.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    y : ndarray of shape (n,)
        Labels: -1 inside, +1 outside.
    C : ndarray of shape (n,)
        Cost of slack per sample.
    """

    def __init__(self, X: Matrix, y: Vector, C: Vector):
        rows = as_rows(X)
        self.X, self.y, self.C = X, y, C
        self.within, self.beyond = np.flatnonzero(y < 0), np.flatnonzero(y > 0)
        self._samples = (rows.values, rows.columns, rows.starts, rows.shared)
        self._squares = loops.square_lengths(rows.values, rows.starts, 1.0)

    # -- points --------------------------------------------------------------------------------

    def cold(self, pieces: Integers, inside: Integers, outside: Integers) -> UnionPoint:
        """A point with these assignments and no multipliers yet."""
        n, K = len(self.y), len(pieces)
        W = np.zeros((K, self.X.shape[1] + 1))
        return UnionPoint(pieces, inside, outside, W, np.zeros((n, K)), np.zeros((n, K)))

    def refine(
        self, point: UnionPoint, clock: Clock, *, tol: float, max_rounds: int, settled: float = 0.0
    ) -> UnionPoint:
        """Alternate from a point.

        Parameters
        ----------
        point : UnionPoint
            Where to begin: its assignments and its multipliers count. Where it has an objective, the answer's
            is no higher.
        clock : Clock
            The first round is made in any case.
        tol : float
            Relative gap at the end.
        max_rounds : int
            Rounds at most, of a climb and a look at all samples.
        settled : float
            A round whose objective falls by no more than this, relative, is the last; 0 to go on to the end.
        """
        run, number = _Climb(self, point), 0
        try:
            for number in range(1, max_rounds + 1):
                run.climb(number)
                if run.take(tol, settled) or clock.is_over:
                    break
        except KeyboardInterrupt:
            if run.best is None:
                raise
            return replace(run.best, rounds=number, is_interrupted=True)
        assert run.best is not None
        return replace(run.best, rounds=number)

    # -- parts ---------------------------------------------------------------------------------

    def scores(self, W: Vector, X: Matrix | None = None) -> Vector:
        """The outputs (n, K) of faces (K, m+1) for the samples, or for others."""
        return np.asarray((self.X if X is None else X) @ W[:, :-1].T) + W[:, -1]

    def hinges(self, outputs: Vector) -> Vector:
        """[1 − y_i W_k·x̃_i]_+ for the outputs of the faces."""
        return np.maximum(0.0, 1.0 - self.y[:, None] * outputs)

    def costs(self, pieces: Integers, inside: Integers, outside: Integers) -> Vector:
        """C_i Z_ik, shape (n, K)."""
        costs = np.zeros((len(self.y), len(pieces)), order="F")  # climbs go down the columns
        costs[self.within] = self.C[self.within, None] * (inside[self.within, None] == pieces)
        costs[self.beyond[:, None], outside[self.beyond]] = self.C[self.beyond, None]
        return costs

    def assigned(self, outputs: Vector, pieces: Integers) -> tuple[Integers, Integers]:
        """The assignments that are best for the outputs of the faces."""
        hinge = self.hinges(outputs)
        inside = np.full(len(self.y), -1)
        inside[self.within] = per_piece(hinge[self.within], pieces, np.add).argmin(axis=1)
        outside = np.full((len(self.y), int(pieces[-1]) + 1), -1)
        outside[self.beyond] = best_faces(outputs[self.beyond], pieces)
        return inside, outside

    def pull(self, alpha: Vector) -> Vector:
        """W_k = ½ Σ_i α_ik y_i x̃_i for multipliers (n,) of a face."""
        rows, w = np.flatnonzero(alpha), np.zeros(self.X.shape[1] + 1)
        loops.add_rows(*self._samples, 1.0, rows, 0.5 * self.y[rows] * alpha[rows], w)
        return w

    def climb_face(
        self, w: Vector, alpha: Vector, costs: Vector, output: Vector, accuracy: float, seed: int
    ) -> None:
        """Raise the dual of a face, in place, over what holds it or is near its margin."""
        rows = np.flatnonzero((costs > 0.0) & ((alpha > 0.0) | (self.y * output < 1.0 + _NEAR)))
        own = alpha[rows]
        loops.climb_face(
            *self._samples, 1.0, self.y[rows], costs[rows], self._squares[rows], rows, own, w, accuracy,
            _PASSES, True, seed,
        )  # fmt: skip
        alpha[rows] = own


class _Climb:
    """The state of one run of alternation."""

    def __init__(self, engine: UnionEngine, point: UnionPoint):
        self._engine, self.pieces = engine, point.pieces
        self.inside, self.outside = point.inside, point.outside
        self._costs = engine.costs(self.pieces, self.inside, self.outside)
        self.alpha = np.asfortranarray(np.minimum(point.alpha, self._costs))
        K = len(self.pieces)
        self._accuracy, self._open = np.full(K, _FIRST), np.ones(K, dtype=bool)
        self._touched = np.zeros(K, dtype=bool)
        self.best: UnionPoint | None = None
        self._last = np.inf  # the objective of the best point, at the assignments made since
        self._has_fallen = False
        if np.isfinite(point.objective):
            self.best = replace(point, is_fixed=False, is_interrupted=False)
            self.W, self.outputs = point.W.copy(), np.array(point.outputs, order="F")
            self._hinge = engine.hinges(self.outputs)
            self._last = self._reassign()
        self.W = np.stack([engine.pull(column) for column in self.alpha.T])
        self.outputs = np.asfortranarray(engine.scores(self.W))

    @property
    def dual(self) -> Vector:
        """Dual value (K,) of every face."""
        return np.asarray(self.alpha.sum(axis=0) - np.einsum("kj,kj->k", self.W, self.W))

    def climb(self, seed: int) -> None:
        """Climb the open faces, and score the samples there."""
        engine, faces = self._engine, np.flatnonzero(self._open)
        for k in faces:
            column = (self.alpha[:, k], self._costs[:, k], self.outputs[:, k])
            engine.climb_face(self.W[k], *column, self._accuracy[k], seed)
        self.outputs[:, faces] = engine.scores(self.W[faces])
        self._hinge = engine.hinges(self.outputs)
        self.primal = np.einsum("kj,kj->k", self.W, self.W) + np.einsum("ik,ik->k", self._costs, self._hinge)
        self._touched[:] = False

    def take(self, tol: float, settled: float) -> bool:
        """Take the point where it is better, and move samples; whether all is done."""
        value, bound = float(self.primal.sum()), float(self.dual.sum())
        if value <= self._last:
            fall, self.best = self._last - value, self._point(value, bound)
            self._last = self._reassign()
            tell({"objective": value, "bound": bound, "pieces": float(self.best.n_pieces)})
            if relative_gap(value, bound) <= tol and not self._touched.any():
                self.best = replace(self.best, is_fixed=True)
                return True
            if self._has_fallen and 0.0 < fall <= settled * value:
                return True
            self._has_fallen = True
        elif relative_gap(self._last, bound) <= tol:
            # No point of these assignments is better than the last one taken by more than the tolerance.
            assert self.best is not None
            self.best = replace(
                self.best, inside=self.inside, outside=self.outside, alpha=self.alpha.copy(),
                objective=self._last, bound=bound, is_fixed=True,
            )  # fmt: skip
            return True
        self._open_faces(tol)
        return False

    def _open_faces(self, tol: float) -> None:
        """Choose the faces to climb next: those with other samples, and those with too large a gap."""
        gaps = self.primal - self.dual
        far = gaps > 0.5 * tol * (self.primal + self.primal.mean())
        self._accuracy[far] = np.maximum(_STRICTER * self._accuracy[far], _STRICTEST)
        self._accuracy[self._touched] = np.maximum(self._accuracy[self._touched], 0.1 * _FIRST)
        self._open = far | self._touched

    def _reassign(self) -> float:
        """Move every sample for which that is better; return the objective at the new assignments."""
        engine, hinge = self._engine, self._hinge
        within, beyond = engine.within, engine.beyond
        paid = per_piece(hinge[within], self.pieces, np.add)
        own, best = self.inside[within], paid.argmin(axis=1)
        every = np.arange(len(within))
        moves = paid[every, best] < paid[every, own] - _GAIN
        inside, outside = self.inside.copy(), self.outside.copy()
        inside[within[moves]] = best[moves]
        faces, outputs = best_faces(self.outputs[beyond], self.pieces), self.outputs[beyond]
        every = np.arange(len(beyond))[:, None]
        mine = self.outside[beyond]
        output = outputs[every, mine]
        # One that holds its face may move as well, where it would not hold the other.
        holds = (output < 1.0) | (self.alpha[beyond][every, mine] > 0.0)
        outside[beyond] = np.where(holds & (outputs[every, faces] > output + _GAIN), faces, mine)
        changed = (inside != self.inside) | (outside != self.outside).any(axis=1)
        size = np.einsum("kj,kj->", self.W, self.W)  # before multipliers, and with them the faces, are lost
        if changed.any():
            self._move(inside, outside)
        return float(size + np.einsum("ik,ik->", self._costs, hinge))

    def _move(self, inside: Integers, outside: Integers) -> None:
        """Take these assignments; multipliers on faces that no longer answer become 0."""
        self.inside, self.outside = inside, outside
        costs = self._engine.costs(self.pieces, inside, outside)
        self._touched = (costs != self._costs).any(axis=0)
        self._costs = costs
        alpha = np.minimum(self.alpha, costs, order="F")
        for k in np.flatnonzero((alpha != self.alpha).any(axis=0)):
            self.W[k] = self._engine.pull(alpha[:, k])
            self.outputs[:, k] = self._engine.scores(self.W[k : k + 1])[:, 0]
        self.alpha = alpha

    def _point(self, value: float, bound: float) -> UnionPoint:
        vectors = (self.W.copy(), self.alpha.copy(), self.outputs.copy())
        return UnionPoint(self.pieces, self.inside, self.outside, *vectors, value, bound)
